"""Figures of a report: learning curves, scores by size, and the tables' scores as dots.

A scheme looks the same in every figure (`looks.py`). Bands reach from the smallest to the largest score over seeds.
Equal input gives equal bytes: no date, no random ids. Needs matplotlib (the extra `plots`).
"""

from __future__ import annotations

import io
import itertools
import math
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import polars as pl

from ape_cli.curves import Panel
from ape_cli.looks import INK, drawing, look
from ape_cli.report import measured
from ape_cli.table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")  # of files, by their endings

MOST_ROWS = 60  # of a table whose scores are drawn as dots
_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_DOTTED: dict[str, Any] = {"linestyle": ":", "linewidth": 0.9}  # a curve beside another
_PANEL = (3.1, 2.35)  # inches


def missing() -> str | None:
    """What to do where there is no matplotlib; None where there is."""
    return None if find_spec("matplotlib") else "pip install matplotlib, then the same command"


def figures(scores: list[Table], by_size: list[Panel], learning: list[Panel], metric: str) -> dict[str, Figure]:
    """The figures of a report by their names as files; without those that there is nothing for."""
    drawn = {"scores": dots(scores)} if max(len(table.rows) for table in scores) <= MOST_ROWS else {}
    if by_size:
        drawn["by-size"] = lines(by_size, *_measured(by_size, metric))
    if learning:
        name, unit = _measured(learning, metric)
        drawn["learning-curves"] = lines(learning, f"validation {name}", unit)
    return drawn


def _measured(panels: list[Panel], metric: str) -> tuple[str, str]:
    """What y is in all of them, in words, and its unit."""
    return measured(metric, itertools.chain.from_iterable(panel.lines["task"].unique() for panel in panels))


def lines(panels: list[Panel], score: str, unit: str, *, columns: int = 3) -> Figure:
    """A figure with a panel for each of `panels`, in rows of `columns`. `score`: what y is."""
    from matplotlib.figure import Figure

    with drawing():
        across = min(columns, len(panels))
        down = -(-len(panels) // across)
        names = list(dict.fromkeys(row for panel in panels for row in panel.lines["row"]))
        shades = [("sizes seen in training", 0.09)] * any(p.seen for p in panels)
        shades += [("range over seeds", 0.25)] * any(_several(p.lines) for p in panels)
        tested = any(_tested(panel) is not None for panel in panels)
        legend = _Legend(names, shades, max(across, 2) * _PANEL[0], tested=tested)
        figure = Figure(figsize=(legend.width, down * _PANEL[1] + legend.height), layout="constrained")
        grid = figure.add_gridspec(down, across)
        span = _limits([y for panel in panels for y in _heights(panel)], unit)
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(grid[divmod(number, across)])
            _curves(axes, panel, 100 if unit == "%" else 1)
            axes.set_ylim(span)
            below = panels[number + across] if number + across < len(panels) else None
            if below is None or below.axis != panel.axis:
                axes.set_xlabel(panel.axis)
            if number % across == 0:
                axes.set_ylabel(f"{score}, {unit}")
            else:
                axes.tick_params(labelleft=False)
        legend.put(figure)
    return figure


def _tested(panel: Panel) -> pl.Series | None:
    """The scores on the test split beside the others, if there are any."""
    test = panel.lines["test"] if "test" in panel.lines.columns else None
    return None if test is None or test.is_null().all() else test


def _heights(panel: Panel) -> list[float]:
    """All that is drawn there."""
    test = _tested(panel)
    return [*panel.lines["least"], *panel.lines["most"], *(() if test is None else test.drop_nulls())]


def _several(lines: pl.DataFrame) -> bool:
    """Whether something is over more than one seed."""
    return bool((lines["seeds"] > 1).any())


def _curves(axes: Axes, panel: Panel, unit: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    if panel.seen:
        axes.axvspan(panel.seen[0] - 0.5, panel.seen[1] + 0.5, color=INK, alpha=0.09, linewidth=0, zorder=0)
    for (row,), line in panel.lines.group_by("row", maintain_order=True):
        colour, mark, dashes = look(str(row))
        x, mean = line["x"].to_numpy(), unit * line["mean"].to_numpy()
        drawn: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": dashes, "markevery": -(-x.size // 16)}
        axes.plot(x, mean, label=row, clip_on=False, **drawn)
        if _tested(panel) is not None:
            test = unit * line["test"].cast(pl.Float64).fill_null(math.nan).to_numpy()
            axes.plot(x, test, color=colour, clip_on=False, **_DOTTED)
        if _several(line):
            bottom, top = unit * line["least"].to_numpy(), unit * line["most"].to_numpy()
            axes.fill_between(x, bottom, top, color=colour, alpha=0.18, linewidth=0)
    axes.set_title(panel.title)
    axes.grid(visible=True, axis="y")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def dots(tables: list[Table]) -> Figure:
    """The scores of tables: their columns down, a dot for each row, a bar of one standard deviation to either side."""
    from matplotlib.figure import Figure

    with drawing():
        cells = [cell for table in tables for _, row in table.rows for cell in row if isinstance(cell, Cell)]
        names = list(dict.fromkeys(row for table in tables for row, _ in table.rows))
        legend = _Legend(names, [], 2.3 * _PANEL[0], lines=False, hollow=any(cell.paper for cell in cells))
        heights = [len(t.columns) * (0.12 * len(t.rows) + 0.14) + 0.7 for t in tables]
        figure = Figure(figsize=(legend.width, sum(heights) + legend.height), layout="constrained")
        grid = figure.add_gridspec(len(tables), 1, height_ratios=heights)
        ends = [cell.mean + sign * (cell.std or 0) for cell in cells for sign in (-1, 1)]
        ends += [cell.paper[0] for cell in cells if cell.paper]
        span = _limits(ends, tables[0].unit)
        for number, table in enumerate(tables):
            axes = figure.add_subplot(grid[number])
            _dots(axes, table)
            axes.set_xlim(span)
        legend.put(figure)
    return figure


def _dots(axes: Axes, table: Table) -> None:
    unit, step = 100 if table.percent else 1, 0.8 / len(table.rows)
    for number, (row, cells) in enumerate(table.rows):
        colour, mark, _ = look(row)
        drawn: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": "none", "clip_on": False}
        at = {i + step * (number + 0.5) - 0.4: cell for i, cell in enumerate(cells) if isinstance(cell, Cell)}
        axes.plot([unit * cell.mean for cell in at.values()], list(at), label=row, **drawn)
        for y, cell in at.items():
            if cell.std:
                axes.hlines(y, unit * (cell.mean - cell.std), unit * (cell.mean + cell.std), color=colour)
            if cell.paper:
                axes.plot([unit * cell.paper[0]], [y], markerfacecolor="none", **drawn)
    axes.set_yticks(range(len(table.columns)), table.columns)
    axes.set_ylim(len(table.columns) - 0.5, -0.5)
    for edge in range(1, len(table.columns)):
        axes.axhline(edge - 0.5, color=INK, alpha=0.15, linewidth=0.7)
    axes.grid(visible=True, axis="x")
    axes.tick_params(axis="y", length=0)
    axes.set_title(table.title)
    axes.set_xlabel(f"{table.title.rpartition(', ')[2]}, {table.unit}")


def _limits(scores: list[float], unit: str) -> tuple[float, float]:
    """Of an axis of scores: from a ten per cent below all of them to 100; of nats from 0."""
    if unit == "%":
        return 10.0 * min(9, max(0, math.floor(10 * min(scores)))), 100.0
    return 0.0, 1.05 * max(scores) or 1.0


class _Legend:
    """One legend below all panels, with as many columns as its longest word leaves room for."""

    def __init__(
        self,
        names: list[str],
        shades: list[tuple[str, float]],
        width: float,
        *,
        lines: bool = True,
        hollow: bool = False,
        tested: bool = False,
    ) -> None:
        """`shades`: words and opacities of neutral areas; `width`: inches.

        `hollow`: there are the paper's numbers; `tested`: curves of the test split.
        """
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        self.handles: list[Any] = []
        for name in names:
            colour, mark, dashes = look(name)
            self.handles.append(
                Line2D([], [], color=colour, marker=mark, linestyle=dashes if lines else "none", label=name)
            )
        if hollow:
            circle: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}
            self.handles.append(Line2D([], [], color=INK, label="the paper's", **circle))
        if tested:
            self.handles.append(Line2D([], [], color=INK, label="test", **_DOTTED))
        self.handles += [Patch(color=INK, alpha=alpha, linewidth=0, label=words) for words, alpha in shades]
        longest = max(len(str(handle.get_label())) for handle in self.handles)
        self.width = max(width, 0.7 + 0.075 * longest)
        self.columns = max(1, min(len(self.handles), int(self.width / (0.6 + 0.075 * longest))))
        self.height = 0.15 + 0.19 * -(-len(self.handles) // self.columns)  # inches

    def put(self, figure: Figure) -> None:
        figure.legend(handles=self.handles, loc="outside lower center", ncols=self.columns)


# As files ----------------------------------------------------------------------------------------


def encode(figure: Figure, kind: str) -> bytes:
    """A figure as one of `FORMATS`, on white."""
    out = io.BytesIO()
    with drawing():
        figure.savefig(out, format=kind, metadata=_METADATA[kind], dpi=200)
    return out.getvalue()


def inline(figure: Figure, name: str) -> str:
    """A figure as an SVG element for an HTML page, its neutral colour the text's own, nothing behind it.

    `name` goes before every id, so that several figures can stand in one page. The figure is transparent from then on.
    """
    figure.patch.set_alpha(0)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
    svg = encode(figure, "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    svg = re.sub(r' (?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', svg).replace("url(#", f"url(#{name}-")
    svg = svg.replace(INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{name.replace("-", " ")}, a plot"', 1)
