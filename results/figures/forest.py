"""Draw a figure of a finding: rows of means with their 95% intervals over seeds, in columns, as an SVG file.

Every mean is printed next to its dot, so a figure needs no legend. The file has the colours of a light page and, by a
media query, those of a dark page. Lengths are CSS pixels.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from ape_cli.reports import palette, stats
from ape_cli.reports.palette import ON_DARK
from ape_cli.reports.plots import encode

WIDTH, ROW, MARGIN, GAP = 720, 16, 8, 12
TICKS, LINE = 26, 14  # heights of the numbers below a scale, and of a line of the foot
TEXT, SMALL = 8.5, 8  # font sizes in points
LEAST_PLOT = 40
OTHERS = palette.Look(palette.INK, "o", palette.SOLID)  # the look of rows that are not those of a scheme
PAGES = {"#ffffff": "#0d1117", palette.INK: palette.INK_ON_DARK, **ON_DARK}  # colours of a light page, on a dark page


class Cell(NamedTuple):
    """A mean over seeds, half of its 95% interval (None for one seed), and the number of seeds."""

    mean: float
    half: float | None
    seeds: int
    note: str = ""  # follows the number

    @classmethod
    def of(cls, values: Iterable[float], note: str = "") -> Cell:
        """The cell of a score for each seed."""
        ordered = sorted(values)  # the sum of floats depends on their order
        return cls(sum(ordered) / len(ordered), stats.spread(ordered)[1], len(ordered), note)

    def ends(self, is_share: bool) -> tuple[float, float]:
        """The ends of the interval. That of a share is cut off at 0 and 100."""
        low, high = self.mean - (self.half or 0), self.mean + (self.half or 0)
        return (max(low, 0), min(high, 100)) if is_share else (low, high)


class Row(NamedTuple):
    """A row with its cells by column; a column may be missing. `looks` is a row of the palette."""

    label: str
    cells: Mapping[str, Cell]
    looks: str = ""
    hollow: bool = False


class Block(NamedTuple):
    """Rows below a heading. Successive blocks with the same columns share them, and the scale.

    Columns are in the `order` given, and then in the order in which the rows name them.
    """

    heading: str
    rows: Sequence[Row]
    order: Sequence[str] = ()

    @property
    def cells(self) -> list[Cell]:
        """The cells of all rows."""
        return [cell for row in self.rows for cell in row.cells.values()]

    @property
    def columns(self) -> list[str]:
        """The columns that have a cell."""
        names = dict.fromkeys(column for row in self.rows for column in row.cells)
        return list(dict.fromkeys([*(column for column in self.order if column in names), *names]))


class Finding(NamedTuple):
    """The figure of a finding. If its cells are `differences`, they have signs, and their scale contains 0."""

    blocks: Sequence[Block]
    foot: str
    differences: bool = False

    @property
    def cells(self) -> list[Cell]:
        """The cells of all blocks."""
        return [cell for block in self.blocks for cell in block.cells]

    @property
    def maximum(self) -> int:
        """The largest number of seeds of a cell."""
        return max(cell.seeds for cell in self.cells)

    def text(self, cell: Cell) -> str:
        """What is printed next to a dot. It has the number of seeds if that is not the largest one."""
        number = f"{round(cell.mean, 2) + 0:{'+' if self.differences else ''}.2f}"  # never -0.00
        return f"{number}{f' ×{cell.seeds}' * (cell.seeds != self.maximum)} {cell.note}".strip()

    @property
    def told(self) -> str:
        """The foot of the figure: what its marks are, and what else there is to say."""
        counts = {cell.seeds for cell in self.cells}
        if counts == {1}:
            return f"Mark: the score of one seed, so there is no interval over seeds. {self.foot}"
        what = "mean difference of runs with the same seed" if self.differences else "mean"
        cut, lack = "" if self.differences else ", cut off at 0 and 100", "; one seed has none" if 1 in counts else ""
        return (
            f"Mark: {what}, over {self.maximum} seeds{' (×n: over n)' if len(counts) > 1 else ''}. "
            f"Bar: 95% interval over seeds by Student's t{cut}{lack}. {self.foot}"
        )

    def scale(self, cells: Sequence[Cell], pixels: float) -> tuple[float, float, list[float]]:
        """The ends of a scale with room for these cells, and its ticks, of which there are fewer on a short one.

        The intervals of two seeds are so wide that the scale need not have room for them.
        """
        ends = [0.0] * self.differences
        for cell in cells:
            ends += [cell.mean] if cell.seeds == 2 else cell.ends(not self.differences)
        low, high = min(ends), max(ends)
        ticks = [
            float(tick)
            for tick in MaxNLocator(max(1, min(4, int(pixels / 25))), steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ]
        if not self.differences:  # from a tick to a tick
            return max(ticks[0], 0), min(ticks[-1], 100), [tick for tick in ticks if 0 <= tick <= 100]
        pad = 0.04 * (high - low) or 1.0
        return low - pad, high + pad, [tick for tick in ticks if low - pad <= tick <= high + pad]


def wide(text: str, size: float = TEXT, weight: str = "normal") -> float:
    """The width of a text in pixels."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] * 96 / 72


def wrapped(text: str) -> list[str]:
    """The lines of the foot."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if wide(longer, SMALL) <= WIDTH - 2 * MARGIN else [*lines, word]
    return lines


class Panels:
    """Successive blocks with the same columns: their places in a figure, and how they are drawn."""

    def __init__(self, finding: Finding, blocks: Sequence[Block], left: float) -> None:
        """Compute the scale, the width of the columns and the height."""
        self.finding, self.blocks, self.left = finding, blocks, left
        cells = [cell for block in blocks for cell in block.cells]
        columns = blocks[0].columns
        self.column_width = (WIDTH - MARGIN - left) / len(columns)
        self.plot = max(
            self.column_width - max(wide(finding.text(cell), SMALL) for cell in cells) - 2 * GAP, LEAST_PLOT
        )
        self.low, self.high, self.ticks = finding.scale(cells, self.plot)
        self.columns = {c: [c] if wide(c, SMALL) < self.column_width - GAP else c.split("/") for c in columns}
        self.names = max(len(lines) for lines in self.columns.values()) if columns != [""] else 0
        self.height = ROW * (self.names + sum(len(b.rows) + bool(b.heading) for b in blocks)) + TICKS

    def draw(self, axes: Axes, looks: palette.Looks, top: float) -> None:
        """Draw the blocks below `top`."""
        for block in self.blocks:
            if block.heading:
                axes.text(MARGIN, top + ROW / 2, block.heading, va="center", weight="bold")
                top += ROW
            if block is self.blocks[0]:
                self._names(axes, top)
                top += ROW * self.names
            for index in range(len(self.columns)):
                self._grid(axes, index, top, top + ROW * len(block.rows))
            for number, row in enumerate(block.rows):
                self._row(axes, row, looks.get(row.looks, OTHERS), top + ROW * (number + 0.5))
            top += ROW * len(block.rows)
        for index, tick in itertools.product(range(len(self.columns)), self.ticks):
            x = self._along(index)(tick)
            axes.text(x, top + 8, f"{tick:g}", ha="center", va="center", size=SMALL, alpha=0.85)

    def _names(self, axes: Axes, top: float) -> None:
        """Write the names of the columns."""
        for index, lines in enumerate(self.columns.values()):
            for number, line in enumerate(lines if self.names else []):
                x, y = self.left + self.column_width * index, top + ROW * (number + 0.5)
                axes.text(x, y, line, va="center", size=SMALL)

    def _row(self, axes: Axes, row: Row, look: palette.Look, y: float) -> None:
        """Draw a row in all columns."""
        axes.text(MARGIN, y, row.label, va="center")
        for index, column in enumerate(self.columns):
            if cell := row.cells.get(column):
                self._cell(axes, index, y, cell, look, row.hollow)

    def _along(self, index: int) -> Callable[[float], float]:
        """The function from numbers to places along the scale of a column."""
        start = self.left + self.column_width * index
        return lambda value: start + self.plot * (value - self.low) / (self.high - self.low)

    def _grid(self, axes: Axes, index: int, top: float, bottom: float) -> None:
        """Draw the lines of the ticks of a column."""
        for tick in self.ticks:
            x, strong = self._along(index)(tick), self.finding.differences and tick == 0
            axes.plot([x, x], [top, bottom], color=palette.INK, linewidth=0.8, alpha=0.6 if strong else 0.18)

    def _cell(self, axes: Axes, index: int, y: float, cell: Cell, look: palette.Look, hollow: bool) -> None:
        """Draw the mark, the interval and the number of a cell. An end of the interval beyond the scale is an arrow."""
        along = self._along(index)
        if cell.half is not None:
            low, high = cell.ends(not self.finding.differences)
            inside = [min(max(end, self.low), self.high) for end in (low, high)]
            axes.plot([*map(along, inside)], [y, y], color=look.colour, solid_capstyle="butt")
            for end, is_beyond, mark in ((self.low, low < self.low, "<"), (self.high, high > self.high, ">")):
                if is_beyond:
                    axes.plot([along(end)], [y], color=look.colour, marker=mark, markersize=4)
        face = "#ffffff" if hollow else look.colour
        axes.plot([along(cell.mean)], [y], color=look.colour, marker=look.mark, markerfacecolor=face, zorder=3)
        text = self.finding.text(cell)
        axes.text(self.left + self.column_width * index + self.plot + GAP, y, text, va="center", size=SMALL)


def picture(finding: Finding) -> str:
    """The SVG file of a finding."""
    foot, rows = wrapped(finding.told), [row for block in finding.blocks for row in block.rows]
    left = MARGIN + max(wide(row.label) for row in rows) + GAP
    panels = [
        Panels(finding, list(blocks), left) for _, blocks in itertools.groupby(finding.blocks, lambda b: b.columns)
    ]
    height = 2 * MARGIN + sum(of.height for of in panels) + LINE * len(foot)
    with palette.drawing(**{"font.size": TEXT, "lines.linewidth": 1.6, "lines.markersize": 5.5}):
        figure = Figure((WIDTH / 96, height / 96))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        looks, top = palette.looks({row.looks for row in rows if row.looks}), float(MARGIN)
        for of in panels:
            of.draw(axes, looks, top)
            top += of.height
        for number, line in enumerate(foot):
            axes.text(MARGIN, top + LINE * (number + 0.5), line, va="center", size=SMALL, alpha=0.85)
        return for_both_pages(encode(figure, "svg").decode())


def for_both_pages(svg: str) -> str:
    """An SVG file in which each style is a class, and the classes have other colours on a dark page."""
    styles = dict.fromkeys(re.findall(r' style="([^"]*)"', svg))
    for number, style in enumerate(styles):
        svg = svg.replace(f' style="{style}"', f' class="t{number}"')
    sheet = "".join(f".t{number}{{{style}}}\n" for number, style in enumerate(styles))
    svg = svg.replace("</style>", f"{sheet}</style>", 1)
    rules = re.findall(r"^\.\w+\{.*\}$", svg, flags=re.M)
    pattern = re.compile("|".join(PAGES))
    dark = [rule for rule in rules if pattern.search(rule)]
    dark = [pattern.sub(lambda match: PAGES[match[0]], rule) for rule in dark]
    listed = "\n".join(dark)
    return svg.replace("</style>", f"@media (prefers-color-scheme: dark) {{\n{listed}\n}}\n</style>", 1)
