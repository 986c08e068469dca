"""A report: the selected view, the other views that the HTML page and the plots show, and the output as text.

All views have the same interface (`views.View`). The page has a section for each view that is `on_page` and for each
metric. The plots are those of the same views for the selected metric. A view that is not on the page is shown alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError
from ape_cli.core.runtime import without_collection
from ape_cli.reports import html_report, provenance, rendering
from ape_cli.reports.html_page import anchor
from ape_cli.reports.html_report import ViewResult
from ape_cli.reports.plots import Plot
from ape_cli.reports.provenance import Origin
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View, every
from ape_cli.runs.registry import Registry

_NAMED = 5  # names in a note; the lines on the terminal name every one


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
        found = {anchor(part.view.title): part.plot() for part in self.parts if part.view.caption}
        return found, [plot.note for plot in found.values() if plot and plot.note]

    def text(self, axis: str) -> str:
        """The report in the selected format. `axis` is that of the figures on an HTML page, one of `scales.KINDS`."""
        style, part = self.selected.options.style, self.selected
        if style in ("csv", "json"):
            found = part.view.frame(part.found)
            if style == "json":
                return escaping.json(found.to_dicts()) + "\n"
            texts = pl.col(pl.String)
            return found.with_columns(texts.map_elements(escaping.csv, pl.String)).write_csv()
        if style == "html":
            assert self.origin, "`read` reads it for a page"
            return html_report.text(self.selected.view, [*self.parts, *self.others], self.notes, axis, self.origin)
        return rendering.text(style, self.tables)


@without_collection()
def read(registry: Registry, view: View[Any], options: Options, standing: str = "") -> tuple[Document, list[str]]:
    """Read the views of a report. Returns the report, and a line of text about each run or view that cannot be read.

    `standing` is a note for the tables. Further notes name what was left out.

    Raises `ApeError` if the selected view has nothing to show.
    """
    found, bad = view.read(registry, options)
    selected, views = ViewResult(view, options, found), [view]
    if view.on_page and (options.style == "html" or options.plots is not None):
        each, unreadable = every()
        bad += unreadable
        views = [x for x in each if x.name == view.name or (x.on_page and (options.style == "html" or x.caption))]
    parts = []
    for other in views:
        if other.name == view.name:
            parts.append(selected)
        else:
            parts.append(_result(registry, other, options, bad))
    origin, others = None, list[ViewResult]()
    if options.style == "html":
        origin = provenance.read(registry, options)
        for metric in origin.metrics(options.metric)[1:]:
            others += _of_metric(registry, [x for x in views if "metric" not in x.unused], options, metric, bad)
    notes = [note for note in (standing, left_out(bad)) if note]
    return Document(selected, parts, others, notes, origin), list(dict.fromkeys(bad))


def _result(registry: Registry, view: View[Any], options: Options, bad: list[str]) -> ViewResult:
    """A part that need not have anything to show. Lines of text about what cannot be read are appended to `bad`."""
    options = replace(options, needed=False)
    found, more = view.read(registry, options)
    bad += more
    return ViewResult(view, options, found)


def _of_metric(
    registry: Registry, views: Sequence[View[Any]], options: Options, metric: str, bad: list[str]
) -> Iterator[ViewResult]:
    """The parts of a metric that is not the selected one, without views that have no such scores.

    There are no numbers of the paper, because it has only the metric that they were selected with.
    """
    for view in views:
        with suppress(ApeError):  # the default view and comparisons always need scores
            yield _result(registry, view, replace(options, metric=metric, against=None), bad)


def left_out(bad: Sequence[str]) -> str:
    """A note that names what is damaged or cannot be read. `bad` has a line about each; without any the note is empty.

    >>> left_out(["copy-rope-1: run.json was altered", "copy-rope-2: run.json was altered"])
    'Left out, because they are damaged or cannot be read: copy-rope-1, copy-rope-2.'
    """
    names = list(dict.fromkeys(line.partition(": ")[0] for line in bad))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED]) + more
    return f"Left out, because they are damaged or cannot be read: {listed}." if names else ""
