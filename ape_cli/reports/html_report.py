"""The HTML page of a report: its sections, from the views of the runs for each metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ape_cli.reports import html_figure, html_page, plots
from ape_cli.reports.evaluations import SMALLER_IS_BETTER
from ape_cli.reports.html_page import About, Metric, Section
from ape_cli.reports.palette import looks
from ape_cli.reports.plots import Plot
from ape_cli.reports.provenance import Origin
from ape_cli.reports.tables import Table
from ape_cli.reports.views import Options, View


@dataclass(frozen=True)
class ViewResult:
    """The result of one view for one metric."""

    view: View[Any]
    options: Options
    found: Any

    def tables(self, notes: Sequence[str] = ()) -> list[Table]:
        """The result as tables, with further notes under each of them."""
        made = self.view.tables(self.found, interval=self.options.interval)
        return [replace(table, notes=[*table.notes, *notes]) for table in made]

    def plot(self) -> Plot | None:
        """The result as a figure, or None if there is nothing to draw."""
        return self.view.plot(self.found, self.options) if self.view.caption else None


def text(selected: View[Any], parts: Sequence[ViewResult], notes: Sequence[str], axis: str, origin: Origin) -> str:
    """The page.

    notes: further notes under the tables of the `selected` view. axis: one of `scales.KINDS`, for metrics that have an
    error. Without matplotlib there are no figures, and the page says so.
    """
    missing = plots.missing() if any(part.view.caption for part in parts) else None
    drawn = [None if missing else part.plot() for part in parts]
    chosen = looks([row for plot in drawn if plot for row in plot.rows])
    sections = []
    for number, (part, plot) in enumerate(zip(parts, drawn, strict=True)):
        key, title = part.options.metric, part.view.title
        metric = None if "metric" in part.view.unused else Metric(key, origin.name_of(key))
        own_axis = "score" if key in SMALLER_IS_BETTER else axis
        figure = None
        if plot and plot.draw:
            words = f"{title}, {metric.name}" if metric else title
            figure = html_figure.drawn(plot, f"figure-{number}", words, part.view.caption, own_axis, chosen)
        tables = part.tables(notes if part.view.name == selected.name else ())
        sections.append(Section(title, tables, figure, metric))
    sections.append(Section("Runs", [origin.runs]))
    return html_page.page(sections, missing, About(origin.title, origin.facts))
