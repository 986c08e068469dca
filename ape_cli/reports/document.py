"""A report: the selected view, the other views that the HTML page and the plots show, and the output as text.

All views have the same interface (`views.View`). The page has a section for each view that is `on_page` and for each
metric. The plots are those of the same views for the selected metric. A view that is not on the page is shown alone.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from ape_cli.core import escaping, plugins
from ape_cli.core.errors import LEFT_OUT, ApeError, PartError, left_out
from ape_cli.core.user_parts import called
from ape_cli.reports import html_page, plots, published, rendering
from ape_cli.reports.best_by import Tuned
from ape_cli.reports.descriptions import ReportedRuns
from ape_cli.reports.evaluations import METRICS, NothingToReportError
from ape_cli.reports.html_page import Origin, PageFigures, Section, anchor
from ape_cli.reports.palette import looks
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.reports.views import DEFAULT, Options, View, every
from ape_cli.runs.registry import Registry

logger = logging.getLogger(__name__)
_NAMED = 5  # names in a note; the lines on the terminal name every one


@dataclass(frozen=True)
class ViewResult:
    """The result of one view for one metric."""

    view: View[Any]
    options: Options
    result: Any

    def tables(self, notes: Sequence[str] = ()) -> list[Table]:
        """The result as tables, with further notes under the last of them."""

        def right(tables: Any) -> bool:
            return isinstance(tables, list) and all(isinstance(table, Table) for table in tables)

        interval = self.options.interval
        tables = called(self.view, "tables", right, "a list of `Table`", self.result, interval=interval)
        return [*tables[:-1], *(replace(table, notes=[*table.notes, *notes]) for table in tables[-1:])]

    @cached_property
    def plot(self) -> Plot | None:
        """The result as a figure, or None if there is nothing to draw."""
        if not self.view.caption:
            return None
        either, given = "a `Plot` or None", (self.result, self.options)
        plot: Plot | None = called(self.view, "plot", lambda value: isinstance(value, Plot | None), either, *given)
        return plot

    @property
    def frame(self) -> pl.DataFrame:
        """The result as lines for programs."""
        allowed = "a `polars.DataFrame`"
        frame: pl.DataFrame = called(
            self.view, "frame", lambda value: isinstance(value, pl.DataFrame), allowed, self.result
        )
        return frame


@dataclass(frozen=True)
class Document:
    """The content of a report."""

    selected: ViewResult
    parts: Sequence[ViewResult]  # the views for the selected metric, in the order of the page; plots show them too
    others: Sequence[ViewResult] = ()  # the views for the other metrics, which only the page shows
    notes: Sequence[str] = ()  # they stand under the last table of the selected view
    origin: Origin | None = None  # where the report comes from, for the page

    @property
    def tables(self) -> list[Table]:
        """The tables of the selected view."""
        return self.selected.tables(self.notes)

    def plots(self) -> dict[str, Plot | None]:
        """The plots by the names of their files. It warns of those that are not drawn."""
        figures = {anchor(part.view.title): part.plot for part in self.parts if part.view.caption}
        for plot in figures.values():
            if plot and plot.note:
                logger.warning(plot.note)
        return figures

    def text(self, axis: str) -> str:
        """The report in the selected format. `axis` is that of the figures on an HTML page, one of `plots.KINDS`."""
        style = self.selected.options.style
        if style == "html":
            return self._page(axis)
        if style not in ("csv", "json"):
            options = self.selected.options
            return rendering.text(style, self.tables, bold=options.bold, notes=options.notes)
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
                axis_type = axis if METRICS[key].is_share else "score"
                figure = drawer.draw(plot, words, part.view.caption, axis_type)
            tables = part.tables(self.notes if part.view.name == self.selected.view.name else ())
            sections.append(Section(title, tables, figure, metric, named))
        sections.append(Section("Runs", [self.origin.runs]))
        return html_page.page(sections, title=self.origin.title, facts=self.origin.facts, missing=missing or "")


def read(registry: Registry, view: View[Any], options: Options, note: str = "") -> Document:
    """Read the views of a report. `note` is one for the tables. Another one names what was left out.

    Raises `ApeError` if the selected view has nothing to show.
    """
    registry = ReportedRuns(registry)
    with left_out() as missing:
        try:
            tuned = Tuned(registry) if options.best_by else None
            selected = _result(registry, tuned, view, options)
        except NothingToReportError as error:
            if missing:
                error.fix = f"restore or remove what was left out (`ape verify` checks every file); or {error.fix}"
            raise
        parts, others, origin = [selected], list[ViewResult](), None
        plotted = options.plots is not None and view.name == DEFAULT  # a view that was asked for is drawn alone
        views = [view]
        if view.on_page and (options.style == "html" or plotted):
            views = [
                x for x in every() if x.name == view.name or (x.on_page and (options.style == "html" or x.caption))
            ]
            parts = [
                part
                for other in views
                if (part := selected if other.name == view.name else _part(registry, tuned, other, options))
            ]
        if options.style == "html":
            origin = html_page.origin_of(tuned.runs(options) if tuned else registry, options)
            for metric in origin.metrics(options.metric)[1:]:
                has = options.against is not None and metric in published.load(options.against).metrics
                of_metric = replace(options, metric=metric, against=options.against if has else None)
                metric_views = (other for other in views if "metric" not in other.unused)
                others += [part for other in metric_views if (part := _part(registry, tuned, other, of_metric))]
        notes = [line for line in (note, left_out_note(missing)) if line]
        return Document(selected, parts, others, notes, origin)


def _result(registry: Registry, tuned: Tuned | None, view: View[Any], options: Options) -> ViewResult:
    """The result of a view, of the chosen runs if settings were chosen."""
    runs = tuned.runs(replace(options, metric=view.metric or options.metric)) if tuned else registry
    result = called(view, "read", lambda result: result is not None, "a result", runs, options)
    is_old = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], list)
    if is_old and plugins.is_user_class(type(view)):
        what = "`View.read` returns the result only: a list of texts beside it is deprecated, use `logging`"
        warnings.warn(what, DeprecationWarning, stacklevel=2)
        for line in result[1]:
            logger.warning(LEFT_OUT + line)
        result = result[0]
    return ViewResult(view, options, result)


def _part(registry: Registry, tuned: Tuned | None, view: View[Any], options: Options) -> ViewResult | None:
    """The result of a view for a page; None if the view has nothing to show or fails."""
    try:
        result = _result(registry, tuned, view, options)
        if plugins.is_user_class(type(view)):  # it may fail here, where the other views go on without it
            result.tables()
            _ = result.plot
        return result
    except PartError as error:
        logger.warning(f"{LEFT_OUT}{view.name}: {error.summary}")
    except ApeError:  # it has nothing to show
        pass
    return None


def left_out_note(lines: Sequence[str]) -> str:
    """A note that names what is damaged or left out. Each of `lines` is about one; without any, the note is empty.

    >>> left_out_note(["copy-rope-1: run.json was altered", "copy-rope-2: run.json was altered"])
    'Left out, because they cannot be read or compared: copy-rope-1; copy-rope-2.'
    """
    names = list(dict.fromkeys(line.partition(": ")[0] for line in lines))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = "; ".join(names[:_NAMED]) + more
    return f"Left out, because they cannot be read or compared: {listed}." if names else ""
