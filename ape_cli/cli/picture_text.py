"""Pictures of positional encodings, drawn with characters.

A number is a shade from the lowest to the highest of the picture: spaces, then `░▒▓█`. In colour it is a colour, as in
files: white for 0, one colour above and one below. A terminal of 16 colours shows shades. Lines are at most 80
characters long.

Shapes: L points of a curve, M rows, N columns or places.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import set_cell_size
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from rich.tree import Tree as Drawn

from ape_cli.core import escaping
from ape_cli.reports.pictures import Curve, Diagram, Floats, HeatMap, Panel, colour, limit_of
from ape_cli.reports.pictures._places import names
from ape_cli.structure import Grid, Tree

_SHADES = " ░▒▓█"
_WIDTH, _HEIGHT = 80, 12  # characters of a line, lines of a curve
_NAME = 8  # characters of the name of a row


@dataclass(frozen=True)
class PictureText:
    """A picture that rich can print."""

    title: str
    rows: Sequence[Sequence[Panel]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, for rich."""
        width = min(options.max_width, _WIDTH)
        panels = [panel for row in self.rows for panel in row]
        numbers = [panel.values for panel in panels if not isinstance(panel, Curve)]
        every = np.concatenate([np.zeros(1), *(values.ravel() for values in numbers)])  # 0 is among them
        low, high = float(every.min()), float(every.max())
        coloured = not console.no_color and console.color_system in ("truecolor", "256")
        shading = _Shading(low, high, coloured)
        for line in textwrap.wrap(self.title, width):
            yield Text(line, style="bold")
        for number, panel in enumerate(panels):
            yield Text()
            yield Text(panel.title, style="bold")
            if isinstance(panel, Curve):
                yield from _curve(panel, width)
                continue
            yield from _heat_map(panel, shading, width) if isinstance(panel, HeatMap) else _diagram(panel, shading)
            if number == len(panels) - 1 or isinstance(panels[number + 1], Curve):
                yield Text()
                yield Text(panel.label)
                yield shading.legend()


@dataclass(frozen=True)
class _Shading:
    """How numbers are shown: from the lowest to the highest of a picture, in colour or in shades."""

    low: float
    high: float
    coloured: bool

    def cell(self, value: float, width: int = 1) -> Text:
        """A number as characters."""
        if self.coloured:
            fraction = float(np.clip(value / limit_of(np.array([self.low, self.high])), -1, 1))
            return Text(" " * width, style=Style(bgcolor=Color.from_rgb(*colour(fraction))))
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return Text(_SHADES[min(len(_SHADES) - 1, max(0, int(share * len(_SHADES))))] * width)

    def legend(self) -> Text:
        """What the shades mean, in one line."""
        if self.low == self.high:
            return Text("all are 0", style="dim")
        if self.coloured:
            values = dict.fromkeys((self.low, 0.0, self.high))
            return Text.assemble(*(part for value in values for part in (self.cell(value, 2), f" {value:.3g}  ")))
        first, *edges = np.linspace(self.low, self.high, len(_SHADES) + 1)
        shades = (f"[{shade * 2}] {edge:.3g} " for shade, edge in zip(_SHADES, edges, strict=True))
        return Text(f"{first:.3g} {''.join(shades)}")


def _curve(panel: Curve, width: int) -> Iterator[Text]:
    """A mean as points, and its range over heads as shades."""
    room = width - 10
    each = -(-len(panel.x) // room)  # offsets in a column
    starts = np.arange(0, len(panel.x), each)
    mean, low, high = (_means(part, each, 0) for part in (panel.mean, panel.low, panel.high))
    wide = max(1, min(6, room // len(starts)))
    bottom, top = panel.y_range
    levels = np.linspace(top, bottom, 1 if top == bottom else _HEIGHT)
    rows_of = [np.abs(levels[:, None] - part).argmin(0) for part in (mean, high, low)]  # from the top
    zero = int(np.abs(levels).argmin()) if bottom < 0 < top else -1
    yield Text(panel.y_label, style="dim")
    for row, at in enumerate(levels):
        empty = " ·"[row == zero]
        points = ["●" if row == m else "░" if h <= row <= lo else empty for m, h, lo in zip(*rows_of, strict=True)]
        line = "".join(points if wide == 1 else (point * (wide - 1) + empty for point in points))
        label = f"{at:.3g}" if row in (0, len(levels) // 2, len(levels) - 1) else ""
        yield Text(f"{label:>8} ┤{line}".rstrip())
    yield Text(f"{'':8} └{'─' * (wide * len(starts))}")
    yield Text(f"{'':10}{_ticks(panel.x[starts].tolist(), wide)}".rstrip())
    more = f"; each column is the mean of up to {each} offsets" if each > 1 else ""
    several = f"●: mean over {panel.heads} heads, ░: range over heads"
    yield Text(f"{'':10}{panel.x_label}{more}", style="dim")
    yield Text(f"{'':10}{several if panel.heads > 1 else '●: one score for all heads'}", style="dim")


def _ticks(x: list[int], wide: int) -> str:
    """The numbers below a curve, at equal distances from 0, as many as fit.

    >>> _ticks(list(range(-31, 32)), 1).split()
    ['-30', '-25', '-20', '-15', '-10', '-5', '0', '5', '10', '15', '20', '25', '30']
    """
    line = [" "] * (wide * len(x) + 8)
    zero = x.index(0) if 0 in x else 0
    room = max(len(str(number)) for number in x) + 2
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if s * wide >= room)
    for index in range(zero % step, len(x), step):
        text = str(x[index])
        begin = max(0, index * wide + (wide - len(text)) // 2)
        line[begin : begin + len(text)] = text
    return "".join(line)


def _heat_map(panel: HeatMap, shading: _Shading, width: int) -> Iterator[Text]:
    """A line for each row, with its name. Large maps are drawn smaller, with the mean of a block for each cell."""
    room = width - _NAME - 2
    factor = max(1, -(-len(panel.columns) // room))
    values = _means(_means(panel.values, factor, 0), factor, 1)
    wide = 2 if 2 * values.shape[1] <= room else 1
    keys = " ".join(panel.columns) if panel.words else f"{panel.columns[0]} to {panel.columns[-1]}"
    keys_line = f"{'query':>{_NAME}}  key, from left to right: {escaping.one_line(keys)}"
    yield Text(keys_line if len(keys_line) <= width else f"{keys_line[: width - 1]}…", style="dim")
    if factor > 1:
        yield Text(f"{'':{_NAME}}  each cell is the mean of {factor} x {factor} pairs", style="dim")
    for name, line in zip(panel.rows[::factor], values, strict=True):
        shown = set_cell_size(escaping.one_line(name), min(_NAME, len(name)))
        yield Text.assemble(f"{shown:>{_NAME}}  ", *(shading.cell(value, wide) for value in line))


def _means(values: Floats, size: int, axis: int) -> Floats:
    """The means of `size` values at a time along an axis. [..., L, ...] -> [..., ceil(L / size), ...]"""
    starts = np.arange(0, values.shape[axis], size)
    counts = np.diff([*starts, values.shape[axis]]).reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    return np.add.reduceat(values, starts, axis) / counts


def _diagram(panel: Diagram, shading: _Shading) -> Iterator[Text | Drawn]:
    """A tree as a tree, a grid as rows, and any other structure with a line for each place."""
    labels = names(panel.places)
    wide = 0 if isinstance(panel.structure, Tree) else 1 + max(map(len, labels))
    parts = [
        Text.assemble(f"{f'{label}*' if i == panel.node else label:<{wide}} ", shading.cell(value, 2), f" {value:.2f}")
        for i, (label, value) in enumerate(zip(labels, panel.values.tolist(), strict=True))
    ]
    if isinstance(panel.structure, Tree):
        yield _tree(parts, panel.structure)
    elif isinstance(panel.structure, Grid):
        size = int(panel.places[:, 1].max())
        room = 8 if size * 9 <= _WIDTH else 2
        for start in range(0, len(labels), size):
            row = panel.values[start : start + size]
            cells = []
            for index, value in enumerate(row.tolist(), start):
                number = f"{value:5.2f}{'*' if index == panel.node else ' '}" if room > 2 else ""
                cell = Text("* ") if index == panel.node and not number else shading.cell(value, 2)
                cells.append(cell + number)
            yield Text(" " if room > 2 else "").join(cells)
    else:
        yield from parts
    yield Text("*: the query", style="dim")


def _tree(labels: list[Text], tree: Tree, index: int = 0, above: Drawn | None = None) -> Drawn:
    """A complete tree whose nodes are in level order."""
    node = Drawn(labels[index]) if above is None else above.add(labels[index])
    for child in range(tree.branching * index + 1, tree.branching * (index + 1) + 1):
        if child < len(labels):
            _tree(labels, tree, child, node)
    return node
