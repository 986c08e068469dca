"""A report: the selected view, the other views that the HTML page and the plots show, and the output as text.

All views have the same interface (`views.View`). The page has a section for each view that is `on_page`, and the plots
are those of the same views. A view that is not on the page is shown alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from ape_cli.core import escaping
from ape_cli.core.runtime import without_collection
from ape_cli.reports import html_page, plots, rendering
from ape_cli.reports.html_page import Section, anchor
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View, every
from ape_cli.runs.registry import Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NAMED = 5  # names in a note; the lines on the terminal name every one


@dataclass(frozen=True)
class Document:
    """The content of a report. `parts` has each view that was read and its result, in the order of the page."""

    view: View[Any]  # the selected view
    options: Options
    parts: Mapping[View[Any], Any]
    notes: Sequence[str] = ()  # they stand under each table of the selected view

    @property
    def tables(self) -> list[Table]:
        """The tables of the selected view."""
        made = self.view.tables(self.parts[self.view], interval=self.options.interval)
        return [replace(table, notes=[*table.notes, *self.notes]) for table in made]

    def figures(self, axis: str) -> tuple[dict[str, Figure], list[str]]:
        """The figures by the names of their files, and a note about each figure that is not drawn.

        `axis` is one of `scales.KINDS`. This method needs matplotlib.
        """
        wanted = {anchor(v.title): v.plot(found, self.options) for v, found in self.parts.items() if v.caption}
        return plots.figures(wanted, axis), [plot.note for plot in wanted.values() if plot and plot.note]

    def text(self, figures: Mapping[str, Figure], axis: str) -> str:
        """The report in the selected format. `figures` are the figures for an HTML page, drawn with `axis`."""
        style = self.options.style
        if style in ("csv", "json"):
            found = self.view.frame(self.parts[self.view])
            if style == "json":
                return escaping.json(found.to_dicts()) + "\n"
            texts = pl.col(pl.String)
            return found.with_columns(texts.map_elements(escaping.csv, pl.String)).write_csv()
        if style == "html":
            missing = plots.missing() if any(view.caption for view in self.parts) else None
            return html_page.page([self._section(view, figures) for view in self.parts], missing, axis=axis)
        return rendering.text(style, self.tables)

    def _section(self, view: View[Any], figures: Mapping[str, Figure]) -> Section:
        """The section of a view on the page."""
        found, name = self.parts[view], anchor(view.title)
        tables = self.tables if view is self.view else view.tables(found, interval=self.options.interval)
        plot = plots.inline(figures[name], name) if name in figures else None
        return Section(view.title, tables, plot, view.caption)


@without_collection()
def read(registry: Registry, view: View[Any], options: Options, standing: str = "") -> tuple[Document, list[str]]:
    """Read the views of a report. Returns the report, and a line of text about each run or view that cannot be read.

    `standing` is a note for the tables. Further notes name what was left out.

    Raises `ApeError` if the selected view has nothing to show.
    """
    found, bad = view.read(registry, options)
    parts = {view: found}
    if view.on_page and (options.style == "html" or options.plots is not None):
        views, unreadable = every()
        bad += unreadable
        parts = {}
        for other in views:
            if other.name == view.name:
                parts[view] = found
            elif other.on_page and (options.style == "html" or other.caption):
                parts[other], more = other.read(registry, replace(options, needed=False))
                bad += more
    notes = [standing, left_out(bad), registry.unverified_note]
    return Document(view, options, parts, [note for note in notes if note]), list(dict.fromkeys(bad))


def left_out(bad: Sequence[str]) -> str:
    """A note that names what is damaged or cannot be read. `bad` has a line about each; without any the note is empty.

    >>> left_out(["copy-rope-1: run.json was altered", "copy-rope-2: run.json was altered"])
    'Left out, because they are damaged or cannot be read: copy-rope-1, copy-rope-2.'
    """
    names = list(dict.fromkeys(line.partition(": ")[0] for line in bad))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED]) + more
    return f"Left out, because they are damaged or cannot be read: {listed}." if names else ""
