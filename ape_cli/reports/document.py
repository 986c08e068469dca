"""A report: the selected view, the other views that the HTML page and the plots show, and the output as text.

All views have the same interface (`views.View`). The page has a section for each view that is `on_page` and for each
metric. The plots are those of the same views for the selected metric. A view that is not on the page is shown alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from ape_cli.core import escaping, plugins
from ape_cli.core.errors import ApeError, PartError
from ape_cli.core.own_parts import called
from ape_cli.core.runtime import without_collection
from ape_cli.reports import html_page, plots, published, rendering
from ape_cli.reports.best_by import Tuned
from ape_cli.reports.descriptions import ReportedRuns
from ape_cli.reports.evaluations import METRICS
from ape_cli.reports.html_page import Origin, Section, anchor
from ape_cli.reports.page_figures import PageFigures
from ape_cli.reports.palette import looks
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.reports.views import DEFAULT, Options, View, every
from ape_cli.runs.registry import Registry

_NAMED = 5  # names in a note; the lines on the terminal name every one


@dataclass(frozen=True)
class ViewResult:
    """The result of one view for one metric."""

    view: View[Any]
    options: Options
    result: Any

    def tables(self, notes: Sequence[str] = ()) -> list[Table]:
        """The result as tables, with further notes under each of them."""

        def right(tables: Any) -> bool:
            return isinstance(tables, list) and all(isinstance(table, Table) for table in tables)

        interval = self.options.interval
        tables = called(self.view, "tables", right, "a list of `Table`", self.result, interval=interval)
        return [replace(table, notes=[*table.notes, *notes]) for table in tables]

    @cached_property
    def plot(self) -> Plot | None:
        """The result as a figure, or None if there is nothing to draw."""
        if not self.view.caption:
            return None
        either, given = "a `Plot` or None", (self.result, self.options)
        plot: Plot | None = called(self.view, "plot", lambda found: isinstance(found, Plot | None), either, *given)
        return plot

    @property
    def frame(self) -> pl.DataFrame:
        """The result as lines for programs."""
        allowed = "a `polars.DataFrame`"
        frame: pl.DataFrame = called(
            self.view, "frame", lambda found: isinstance(found, pl.DataFrame), allowed, self.result
        )
        return frame


@dataclass(frozen=True)
class Document:
    """The content of a report."""

    selected: ViewResult
    parts: Sequence[ViewResult]  # the views for the selected metric, in the order of the page; plots show them too
    others: Sequence[ViewResult] = ()  # the views for the other metrics, which only the page shows
    notes: Sequence[str] = ()  # they stand under each table of the selected view
    origin: Origin | None = None  # where the report comes from, for the page

    @property
    def tables(self) -> list[Table]:
        """The tables of the selected view."""
        return self.selected.tables(self.notes)

    def plots(self) -> tuple[dict[str, Plot | None], list[str]]:
        """The plots by the names of their files, and a note about each one that is not drawn."""
        figures = {anchor(part.view.title): part.plot for part in self.parts if part.view.caption}
        return figures, [plot.note for plot in figures.values() if plot and plot.note]

    def text(self, axis: str) -> str:
        """The report in the selected format. `axis` is that of the figures on an HTML page, one of `plots.KINDS`."""
        style = self.selected.options.style
        if style == "html":
            return self._page(axis)
        if style not in ("csv", "json"):
            return rendering.text(style, self.tables, bold=self.selected.options.bold)
        frame = self.selected.frame
        if style == "json":  # which has no infinity
            number = pl.col(pl.Float64)
            return escaping.json(frame.with_columns(pl.when(number.is_finite()).then(number)).to_dicts()) + "\n"
        return frame.with_columns(pl.col(pl.String).map_elements(escaping.csv, pl.String)).write_csv()

    def _page(self, axis: str) -> str:
        """The HTML page. Without matplotlib there are no figures, and the page says so."""
        assert self.origin, "`read` reads it for a page"
        parts = [*self.parts, *self.others]
        missing = plots.missing() if any(part.view.caption for part in parts) else None
        figures = [None if missing else part.plot for part in parts]
        drawer = PageFigures(looks([row for plot in figures if plot for row in plot.rows]))
        sections = []
        for part, plot in zip(parts, figures, strict=True):
            key, title = part.options.metric, part.view.title
            metric, named = ("", "") if "metric" in part.view.unused else (key, self.origin.name_of(key))
            figure = None
            if plot:
                words = f"{title}, {named}" if named else title
                kind = axis if METRICS[key].is_share else "score"
                figure = drawer.draw(plot, words, part.view.caption, kind)
            tables = part.tables(self.notes if part.view.name == self.selected.view.name else ())
            sections.append(Section(title, tables, figure, metric, named))
        sections.append(Section("Runs", [self.origin.runs]))
        return html_page.page(sections, title=self.origin.title, facts=self.origin.facts, missing=missing or "")


@without_collection()
def read(registry: Registry, view: View[Any], options: Options, note: str = "") -> tuple[Document, list[str]]:
    """Read the views of a report. Returns the report, and a line of text about each run or view that cannot be read.

    `note` is one for the tables. Further notes name what was left out.

    Raises `ApeError` if the selected view has nothing to show.
    """
    bad: list[str] = []
    registry = ReportedRuns(registry)
    tuned = Tuned(registry, bad) if options.best_by else None

    def result_of(view: View[Any], options: Options) -> ViewResult:
        """The result of a view. Lines of text about what cannot be read are appended to `bad`."""
        runs = tuned.runs(replace(options, metric=view.metric or options.metric)) if tuned else registry
        result, unreadable = called(view, "read", _is_read, "a result, and a list of texts", runs, options)
        bad.extend(unreadable)
        return ViewResult(view, options, result)

    def add(view: View[Any], options: Options, to: list[ViewResult]) -> None:
        """Add the result of a view to a page, unless the view has nothing to show or fails."""
        try:
            found = result_of(view, options)
            if plugins.is_own(type(view)):  # it may fail here, where the other views go on without it
                found.tables()
                _ = found.plot
            to.append(found)
        except PartError as error:
            bad.append(f"{view.name}: {error.summary}")
        except ApeError as error:  # it has nothing to show
            bad.extend(getattr(error, "__notes__", []))

    selected, views = result_of(view, options), [view]
    plotted = options.plots is not None and view.name == DEFAULT  # a view that was asked for is drawn alone
    if view.on_page and (options.style == "html" or plotted):
        each, unreadable = every()
        bad += unreadable
        views = [x for x in each if x.name == view.name or (x.on_page and (options.style == "html" or x.caption))]
    origin, parts, others = None, list[ViewResult](), list[ViewResult]()
    for other in views:
        if other.name == view.name:
            parts.append(selected)
        else:
            add(other, options, parts)
    if options.style == "html":
        origin = html_page.origin_of(tuned.runs(options) if tuned else registry, options)
        for metric in origin.metrics(options.metric)[1:]:
            has = options.against is not None and metric in published.load(options.against).metrics
            of_metric = replace(options, metric=metric, against=options.against if has else None)
            for other in (x for x in views if "metric" not in x.unused):
                add(other, of_metric, others)
    notes = [line for line in (note, left_out(bad)) if line]
    return Document(selected, parts, others, notes, origin), list(dict.fromkeys(bad))


def _is_read(found: Any) -> bool:
    """Whether something is a result of a view and lines of text."""
    return isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], list)


def left_out(bad: Sequence[str]) -> str:
    """A note that names what is damaged or left out. `bad` has a line about each; without any the note is empty.

    >>> left_out(["copy-rope-1: run.json was altered", "copy-rope-2: run.json was altered"])
    'Left out, because they cannot be read or compared: copy-rope-1; copy-rope-2.'
    """
    names = list(dict.fromkeys(line.partition(": ")[0] for line in bad))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = "; ".join(names[:_NAMED]) + more
    return f"Left out, because they cannot be read or compared: {listed}." if names else ""
