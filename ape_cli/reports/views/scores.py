"""The scores in the form of the preprint's tables: schemes as rows, tasks as columns, means over seeds (`aggregation`).

Its figure is a dot plot. Each row of each column has one line, and all of them share one axis. A thin line in the line
style of the row leads from the axis to each dot. If the axis does not begin at a score of 0, the line goes on to the
end of the axis, so that its length does not look like a score. A thick bar shows one standard deviation over seeds to
either side.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from ape_cli.core import escaping
from ape_cli.reports import aggregation, palette, tables
from ape_cli.reports.evaluations import LINES, chosen_columns
from ape_cli.reports.plots import Plot, Scale, scale, short
from ape_cli.reports.tables import Cell, Table
from ape_cli.reports.views import Options, View
from ape_cli.runs.registry import Registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MOST_ROWS = 60  # tables with more rows are not drawn


class Scores(View[pl.DataFrame]):
    """Shows lines of `evaluations.LINES`. It is always an error if there are none."""

    about = "schemes down, tasks across, as in the preprint's tables 1 and 2"
    rank = 0
    caption = "The scores of the tables below."

    def read(self, registry: Registry, options: Options) -> pl.DataFrame:
        """Read the aggregated lines, with published numbers if `--against` names some.

        Raises `ApeError` if there are no scores.
        """
        return aggregation.lines(registry, options)

    def frame(self, result: pl.DataFrame) -> pl.DataFrame:
        """The lines of `read` in the order of the registry, without what only tables show."""
        theirs = [name for name in result.columns if name.startswith("paper") and name not in LINES]
        result = result.sort("number")
        return result.select(*LINES, *theirs, *chosen_columns(result))

    def tables(self, result: pl.DataFrame, *, interval: bool = False) -> list[Table]:
        """A table for each preset and structure, and separate tables for images."""
        return tables.tables(result, interval=interval)

    def plot(self, result: pl.DataFrame, options: Options) -> Plot:
        """A plot with a dot for each score."""
        return dot_plot(self.tables(result, interval=options.interval))


def dot_plot(tables: list[Table]) -> Plot:
    """The plot of tables. It cannot be drawn if a table has too many rows."""
    lines = sum(len(table.scores()) for table in tables)
    if max(len(table.rows) for table in tables) > MOST_ROWS:
        return Plot(_names(tables), None, f"no plot of the scores: a table has more than {MOST_ROWS} rows")
    return Plot(_names(tables), partial(dots, tables), lines=lines)


def dots(tables: list[Table], axis: str, chosen: palette.Looks) -> Figure:
    """Draw tables: their columns from top to bottom, and a dot with a bar for each row.

    axis: one of `plots.KINDS`. chosen: the look of each row.
    """
    from matplotlib.figure import Figure

    with palette.drawing():
        cells = [cell for table in tables for cell in table.scores()]
        points = [x for cell in cells for x in (cell.mean, *(cell.paper or ())[:1])]
        ends = [cell.mean + sign * cell.std for cell in cells if cell.std for sign in (-1, 1)]
        along = scale(axis, tables[0].unit, points, ends)
        legend = palette.Legend(_explained(tables, chosen), 2.3 * palette.PANEL[0])
        heights = [len(t.columns) * (0.12 * len(t.rows) + 0.14) + 0.7 for t in tables]
        figure = Figure(figsize=(legend.width, sum(heights) + legend.height), layout="constrained")
        grid = figure.add_gridspec(len(tables), 1, height_ratios=heights)
        for number, table in enumerate(tables):
            axes = figure.add_subplot(grid[number])
            _dots(axes, table, along, chosen)
            axes.set_yticks(range(len(table.columns)), [escaping.one_line(short(name)) for name in table.columns])
            axes.set_title(escaping.one_line(table.title))
        legend.put(figure)
    return figure


def _names(tables: list[Table]) -> list[str]:
    """The names of all rows, without repetition."""
    return list(dict.fromkeys(row for table in tables for row, _ in table.rows))


def _explained(tables: list[Table], chosen: palette.Looks) -> list[Any]:
    """The handles of the legend: all rows, and each other sign in the figure."""
    cells = [cell for table in tables for cell in table.scores()]
    thin = {"linewidth": palette.LEAD["linewidth"]}  # as the line that leads to a dot
    handles = [palette.line(escaping.one_line(name), **chosen[name].style, **thin) for name in _names(tables)]
    if any(cell.std for cell in cells):
        handles.append(palette.line("± one standard deviation over seeds"))
    if any(cell.paper for cell in cells):
        handles.append(palette.line("published", **palette.PAPER))
    return handles


def _dots(axes: Axes, table: Table, along: Scale, chosen: palette.Looks) -> None:
    """Draw one table."""
    step = 0.8 / len(table.rows)
    for number, (row, cells) in enumerate(table.rows):
        look = chosen[row]
        at = {i + step * (number + 0.5) - 0.4: cell for i, cell in enumerate(cells) if isinstance(cell, Cell)}
        means = along.of([cell.mean for cell in at.values()])
        axes.plot(means, list(at), label=row, clip_on=False, **look.style | {"linestyle": "none"})
        for (y, cell), mean in zip(at.items(), means, strict=True):
            # the length of a line means nothing unless the axis begins at a score of 0
            end = mean if along.low == 0 and along.threshold is None else along.high
            axes.plot([along.low, end], [y, y], color=look.colour, linestyle=look.dashes, zorder=1, **palette.LEAD)
            if cell.std:
                axes.hlines(y, *along.of([cell.mean - cell.std, cell.mean + cell.std]), color=look.colour)
            if cell.paper:
                axes.plot(along.of(cell.paper[:1]), [y], color=look.colour, clip_on=False, **palette.PAPER)
    axes.set_ylim(len(table.columns) - 0.5, -0.5)
    for edge in range(1, len(table.columns)):
        axes.axhline(edge - 0.5, color=palette.INK, alpha=0.15, linewidth=0.7)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(replace(along, unit=table.unit).label(table.title.rpartition(", ")[2]))
    along.put(axes, "x")
