"""Draw a figure of a finding: rows of means with their 95% intervals over seeds, in columns, as an SVG file.

Every mean is printed next to its dot, so a figure needs no legend. The file has the colours of a light page and, by a
media query, those of a dark page. Lengths are CSS pixels.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ape_cli.reports import palette, stats
from ape_cli.reports.builtin import ON_DARK
from ape_cli.reports.plots import encode

WIDTH, ROW, MARGIN = 720, 16, 8
TEXT, SMALL = 8.5, 7.5  # font sizes in points
CHARACTER = 6.6  # the width of a character of a label; those of a small text are narrower
LEAST_PLOT = 40
FOOT = 122  # characters in a line
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
        found = sorted(values)  # the sum of floats depends on their order
        return cls(sum(found) / len(found), stats.spread(found)[1], len(found), note)

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
    """Rows with the same columns and one scale, which is chosen to fit them if it is None."""

    heading: str
    rows: Sequence[Row]
    scale: tuple[float, float] | None = (0, 100)

    @property
    def cells(self) -> list[Cell]:
        """The cells of all rows."""
        return [cell for row in self.rows for cell in row.cells.values()]

    @property
    def columns(self) -> list[str]:
        """The columns that have a cell, in the order in which the rows name them."""
        return list(dict.fromkeys(column for row in self.rows for column in row.cells))


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
    def most(self) -> int:
        """The largest number of seeds of a cell."""
        return max(cell.seeds for cell in self.cells)

    def text(self, cell: Cell) -> str:
        """What is printed next to a dot. It has the number of seeds if that is not the largest one."""
        number = f"{cell.mean:{'+' if self.differences else ''}.2f}"
        return f"{number}{f' ×{cell.seeds}' * (cell.seeds != self.most)} {cell.note}".strip()

    def lines(self) -> list[str]:
        """The foot of the figure: what its marks are, and what else there is to say."""
        counts = {cell.seeds for cell in self.cells}
        what = "mean difference between runs with the same seed" if self.differences else "mean"
        seeds = f"{self.most} seeds" if self.most > 1 else "one seed"
        told = [f"Dot: {what}, over {seeds}" + " (×n: over n)" * (len(counts) > 1) + "."]
        if counts == {1}:
            told = ["Dot: the score of one seed, so there is no interval over seeds."]
        else:
            cut = "" if self.differences else ", cut off at 0 and 100"
            told.append(f"Bar: 95% interval over seeds by Student's t{cut}{'; one seed has none' * (1 in counts)}.")
        return textwrap.wrap(" ".join([*told, self.foot]).strip(), FOOT)


def scale_of(block: Block, differences: bool) -> tuple[float, float, list[float]]:
    """The ends of the scale of a block, and its ticks.

    A chosen scale has no room for the intervals of two seeds, which are very wide.
    """
    if block.scale:
        low, high = block.scale
        return low, high, [low, (low + high) / 2, high]
    ends = [0.0] * differences
    for cell in block.cells:
        ends += [cell.mean] if cell.seeds == 2 else cell.ends(not differences)
    pad = 0.04 * (max(ends) - min(ends)) or 1.0
    low, high = min(ends) - pad, max(ends) + pad
    ticks = [float(tick) for tick in MaxNLocator(3).tick_values(low, high) if low <= tick <= high]
    return low, high, ticks


def picture(finding: Finding) -> str:
    """The SVG file of a finding."""
    foot, blocks = finding.lines(), finding.blocks
    heights = [ROW * (len(b.rows) + bool(b.heading) + (b.columns != [""])) + 26 for b in blocks]
    height = MARGIN + sum(heights) + 13 * len(foot) + MARGIN
    sizes = {"font.size": TEXT, "lines.linewidth": 1.6, "lines.markersize": 5.5}
    with palette.drawing(**sizes):
        figure = Figure((WIDTH / 96, height / 96))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        looks = palette.looks({row.looks for block in blocks for row in block.rows if row.looks})
        left = MARGIN + CHARACTER * max(len(row.label) for block in blocks for row in block.rows) + 6
        top = float(MARGIN)
        for block, tall in zip(blocks, heights, strict=True):
            _draw(axes, finding, block, looks, left, top)
            top += tall
        for number, line in enumerate(foot):
            axes.text(MARGIN, top + 6.5 + 13 * number, line, va="center", size=SMALL, alpha=0.85)
        return for_both_pages(encode(figure, "svg").decode())


def _draw(axes: Axes, finding: Finding, block: Block, looks: palette.Looks, left: float, top: float) -> None:
    """Draw a block below `top`, with its plots to the right of `left`."""
    if block.heading:
        axes.text(MARGIN, top + ROW / 2, block.heading, va="center", weight="bold")
        top += ROW
    low, high, ticks = scale_of(block, finding.differences)
    each = (WIDTH - MARGIN - left) / len(block.columns)
    words = 6.0 * max(len(finding.text(cell)) for cell in block.cells) + 16
    wide = max(each - words, LEAST_PLOT)
    named = block.columns != [""]
    first, end = top + ROW * named, top + ROW * (named + len(block.rows))
    for number, row in enumerate(block.rows):
        axes.text(MARGIN, first + ROW * (number + 0.5), row.label, va="center")
    for place, column in enumerate(block.columns):
        start = left + each * place

        def along(value: float, start: float = start) -> float:
            return start + wide * (min(max(value, low), high) - low) / (high - low)

        if named:
            axes.text(start, top + ROW / 2, column, va="center", weight="bold", size=SMALL)
        for tick in ticks:
            faint = {"color": palette.INK, "linewidth": 0.8}
            zero = finding.differences and tick == 0
            axes.plot([along(tick)] * 2, [first, end], alpha=0.6 if zero else 0.18, **faint)
            axes.text(along(tick), end + 8, f"{tick:g}", ha="center", va="center", size=SMALL, alpha=0.85)
        for number, row in enumerate(block.rows):
            if cell := row.cells.get(column):
                y = first + ROW * (number + 0.5)
                look = looks.get(row.looks, palette.Look(palette.INK, "o", palette.SOLID))
                _dot(axes, cell.mean, y, along, look, row.hollow)
                if cell.half is not None:
                    _bar(axes, cell.ends(not finding.differences), y, along, (low, high), look)
                axes.text(start + wide + 12, y, finding.text(cell), va="center", size=SMALL)


def _dot(axes: Axes, mean: float, y: float, along: Any, look: palette.Look, hollow: bool) -> None:
    """Draw the dot of a cell."""
    face = {"markerfacecolor": "#ffffff", "markeredgewidth": 1.4} if hollow else {}
    axes.plot([along(mean)], [y], color=look.colour, marker=look.mark, zorder=3, **face)


def _bar(
    axes: Axes, ends: tuple[float, float], y: float, along: Any, scale: tuple[float, float], look: palette.Look
) -> None:
    """Draw the interval of a cell. An end beyond the scale is an arrow."""
    axes.plot([along(end) for end in ends], [y, y], color=look.colour, solid_capstyle="butt")
    for end, mark in [(scale[0], "<")] * (ends[0] < scale[0]) + [(scale[1], ">")] * (ends[1] > scale[1]):
        axes.plot([along(end)], [y], color=look.colour, marker=mark, markersize=4)


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
    dark = [pattern.sub(lambda found: PAGES[found[0]], rule) for rule in dark]
    listed = "\n".join(dark)
    return svg.replace("</style>", f"@media (prefers-color-scheme: dark) {{\n{listed}\n}}\n</style>", 1)
