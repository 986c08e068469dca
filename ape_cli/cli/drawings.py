"""Drawings of a row: source and target as words, trees, grids, rings or products of two; or an image with its label.

Pixels and scores are characters in shades. An image that is too wide is drawn smaller, with the mean of a square for
each pixel, and a line says so.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.cells import set_cell_size
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text
from rich.tree import Tree as Drawn

from ape_cli.core import escaping
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import shown
from ape_cli.data.manifest import Manifest
from ape_cli.reports.pictures import Curve, Diagram, Floats, HeatMap, Panel
from ape_cli.reports.pictures._places import names
from ape_cli.structure import Cyclic, Grid, Seq, Structure, Tree, factors_of
from ape_cli.tasks import size_words

_SHADES = " ░▒▓█"  # from 0 to 255


def pair(manifest: Manifest, split: str, row: dict[str, Any]) -> RenderableType:
    """Source and target of a row, side by side if they fit. Raises `DataError` if the row is not valid."""
    plan = manifest.plan
    binarised = bool(plan.parameters.get("binarise"))
    form = " (binarised)" if binarised else ""
    drawings: dict[str, RenderableType] = {}
    lines: list[RenderableType] = []
    for name, order in (("source", plan.source_order or plan.order), ("target", plan.order)):
        names = [shown(manifest.vocabulary[i]) for i in row[f"{name}_ids"]]
        drawings[name] = drawn(plan.structure, row[f"{name}_positions"], names, binarised=binarised)
        if isinstance(plan.structure, Tree):
            lines.append(Text.assemble((f"{name} in {order} order{form}: ", "dim"), _line(names)))
    task = f"{plan.task} ({plan.parameters['task']})" if isinstance(plan.parameters.get("task"), str) else plan.task
    title = f"{task}, {split} row {row['row']}, {size_words(plan.task, str(plan.structure))[0]} {row['size']}{form}"
    if row["op"] is not None:
        title += f", {row['op']}"
    return Group(side_by_side(title, drawings), *lines)


def side_by_side(title: str, drawings: dict[str, RenderableType]) -> RenderableType:
    """Drawings with their names, or one below the other if they do not fit."""
    parts = [Group(Text(name, style="bold"), drawing) for name, drawing in drawings.items()]
    return Group(Text(title, style="table.title"), Text(), Columns(parts, padding=(0, 4)))


def labelled_image(manifest: Manifest, split: str, row: dict[str, Any]) -> RenderableType:
    """The image, with its label in the title. The image of the row: nested lists, [H, W, C]."""
    pixels = np.array(row["pixels"], dtype=np.uint8)
    height, width, channels = pixels.shape
    title = f"{manifest.plan.task}, {split} row {row['row']}, label {row['label']}: {row['class']}"
    size = f"{height} x {width} pixels, {'gray' if channels == 1 else 'RGB'}"
    return Group(Text(title, style="table.title"), Text(size, style="bold"), Mosaic(pixels))


def drawn(
    structure: Structure, positions: Sequence[Any], names: list[str], *, binarised: bool = False
) -> RenderableType:
    """Draw the tokens of one side as their structure; as one line if there is no drawing of the structure.

    Arguments: `positions`, as they are stored, an int or a list of ints for each token; `names`, the readable name of
    each token; `binarised`, whether trees are binarised, which are drawn in their original shape. Raises `DataError` if
    a tree has no root.
    """
    factors = factors_of(structure)
    if len(factors) == 2:
        return _product(*factors, positions=positions, names=names, binarised=binarised)
    if isinstance(structure, Tree):
        return _tree(positions, names, structure, binarised)
    if structure == Grid((Seq(), Seq())) and _is_compact(positions):
        return _grid({(row, column): Text(name) for (row, column), name in zip(positions, names, strict=True)})
    if isinstance(structure, Cyclic):
        return _ring(positions, names, structure.order)
    return _line(names)


def _line(names: list[str]) -> Text:
    """All symbols in a line; with spaces if some name has several characters."""
    return Text(("" if all(len(n) == 1 for n in names) else " ").join(names))


def _is_compact(positions: Sequence[Sequence[int]]) -> bool:
    """Whether coordinates are so small that a grid of them has a reasonable size."""
    return max(map(max, positions)) < len(positions)


def _product(
    outer: Structure, inner: Structure, positions: Sequence[Sequence[int]], names: list[str], binarised: bool
) -> RenderableType:
    """Draw the tokens at each place of the outer structure as the inner structure, and these as the outer one."""
    held: dict[tuple[int, ...], tuple[list[Any], list[str]]] = {}
    for position, name in zip(positions, names, strict=True):
        outer_position, within = position[: outer.width], position[outer.width :]
        tokens = held.setdefault(tuple(outer_position), ([], []))
        tokens[0].append(within[0] if inner.width == 1 else within)
        tokens[1].append(name)
    parts = {
        outer_position: drawn(inner, at, labels, binarised=binarised) for outer_position, (at, labels) in held.items()
    }
    if isinstance(outer, Seq):
        return Group(*parts.values())
    cells = {outer_position: part for outer_position, part in parts.items() if isinstance(part, Text)}
    if len(cells) == len(parts) and outer == Grid((Seq(), Seq())) and _is_compact(list(cells)):
        return _grid({(row, column): cell for (row, column), cell in cells.items()}, gap="  ")
    if len(cells) == len(parts) and isinstance(outer, Tree):
        return _nodes({heap: cell for (heap,), cell in cells.items()}, outer.branching)
    return _line(names)


def _tree(positions: Sequence[int], names: list[str], tree: Tree, binarised: bool) -> Drawn:
    """A tree with one node in a line. Raises `DataError` if it has no root.

    The target of the task `mask` has only some nodes of a tree. A missing node above one of them is drawn as a dot.
    """
    labels = {heap: Text(name) for heap, name in zip(positions, names, strict=True)}
    for heap in positions:
        while (heap := (heap - 2) // tree.branching + 1) > 1 and heap not in labels:
            labels[heap] = Text("·", style="dim")
    return _nodes(labels, None if binarised else tree.branching)


def _nodes(labels: dict[int, Text], branching: int | None, heap: int = 1, above: Drawn | None = None) -> Drawn:
    """The subtree of labels at a heap index, with the first child first. `branching`: None for a binarised tree.

    Raises `DataError` if the tree has no root.
    """
    if heap not in labels:
        raise DataError("the row is not a tree: it has no root", got=sorted(labels)[:8], fix="generate it again")
    tree = Drawn(labels[heap], guide_style="dim") if above is None else above.add(labels[heap])
    for child in _children(labels, branching, heap):
        if child in labels:
            _nodes(labels, branching, child, tree)
    return tree


def _children(labels: Collection[int], branching: int | None, heap: int) -> Iterator[int]:
    """The places where a node may have a child. `branching`: None for a binarised tree.

    There, these are the left child, and from there on the right children. A root has no next sibling: its right child,
    such as the tree of a query, was not binarised.
    """
    if branching is not None:
        yield from range(branching * (heap - 1) + 2, branching * heap + 2)
        return
    for first in (2, 3) if heap == 1 else (2 * heap,):
        child = first
        while child in labels:
            yield child
            child = 2 * child + 1


def _grid(cells: dict[tuple[int, int], Text], gap: str = " ") -> Text:
    """A line of text for each row of a grid, with aligned columns."""
    wide = max(len(cell) for cell in cells.values())
    height, width = (1 + max(outer_position[axis] for outer_position in cells) for axis in (0, 1))
    return Text(
        "\n".join(gap.join(str(cells.get((i, j), "")).ljust(wide) for j in range(width)) for i in range(height))
    )


def _ring(positions: Sequence[int], names: list[str], order: int) -> RenderableType:
    """The ring from its origin on. Tokens before the ring, such as an offset, are on a line above it."""
    before = max(0, len(names) - order)
    ring = Text("  ").join(
        Text.assemble((f"{index}:", "dim"), name)
        for index, name in zip(positions[before:], names[before:], strict=True)
    )
    return Group(Text(" ".join(names[:before])), ring) if before else ring


@dataclass(frozen=True)
class Mosaic:
    """An image that rich can print. `pixels`: uint8 [H, W, C]."""

    pixels: np.ndarray

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The characters, for rich: two for each pixel."""
        height, width, channels = self.pixels.shape
        factor = -(-2 * width // options.max_width)
        if factor > 1:
            yield Text(f"1/{factor} of {height} x {width} pixels", style="dim")
        weights = np.array([0.299, 0.587, 0.114] if channels == 3 else [1.0])  # luma, ITU-R BT.601
        levels = _means(_means(self.pixels @ weights, factor, 0), factor, 1) * len(_SHADES) / 256
        for row in levels.astype(int):
            yield Text("".join(_SHADES[i] * 2 for i in row))


_WIDTH, _HEIGHT = 80, 14  # characters of a line, lines of a curve
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
        shading = _Shading(float(every.min()), float(every.max()))
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
    """How numbers are shown: in shades, from the lowest to the highest of a picture."""

    low: float
    high: float

    def cell(self, value: float, width: int = 1) -> Text:
        """A number as characters."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return Text(_SHADES[min(len(_SHADES) - 1, max(0, int(share * len(_SHADES))))] * width)

    def legend(self) -> Text:
        """What the shades mean, in one line."""
        if self.low == self.high:
            return Text("all are 0", style="dim")
        first, *edges = np.linspace(self.low, self.high, len(_SHADES) + 1)
        shades = (f"[{shade * 2}] {edge:.3g} " for shade, edge in zip(_SHADES, edges, strict=True))
        return Text(f"{first:.3g} {''.join(shades)}")


def _curve(panel: Curve, width: int) -> Iterator[Text]:
    """A mean as points, and its range over heads as shades."""
    room = width - 10
    per_column = -(-len(panel.x) // room)  # offsets
    starts = np.arange(0, len(panel.x), per_column)
    mean, low, high = (_means(part, per_column, 0) for part in (panel.mean, panel.low, panel.high))
    wide = max(1, min(6, room // len(starts)))
    levels, ticks = _levels(*panel.y_range)
    bottom, top = levels[-1], levels[0]
    rows_of = [np.abs(levels[:, None] - part).argmin(0) for part in (mean, high, low)]  # from the top
    zero = int(np.abs(levels).argmin()) if bottom < 0 < top else -1
    yield Text(panel.y_label, style="dim")
    for row, at in enumerate(levels):
        empty = " ·"[row == zero]
        points = ["●" if row == m else "░" if h <= row <= lo else empty for m, h, lo in zip(*rows_of, strict=True)]
        line = "".join(points if wide == 1 else (point * (wide - 1) + empty for point in points))
        label = f"{at:.3g}" if row % ticks == 0 else ""
        yield Text(f"{label:>8} ┤{line}".rstrip())
    yield Text(f"{'':8} └{'─' * (wide * len(starts))}")
    yield Text(f"{'':10}{panel.x[0]}{panel.x[-1]:>{wide * len(starts) - len(str(panel.x[0]))}}")
    more = f"; each column is the mean of up to {per_column} offsets" if per_column > 1 else ""
    several = f"●: mean over {panel.heads} heads, ░: range over heads"
    yield Text(f"{'':10}{panel.x_label}{more}", style="dim")
    yield Text(f"{'':10}{several if panel.heads > 1 else '●: one score for all heads'}", style="dim")


def _levels(bottom: float, top: float) -> tuple[Floats, int]:
    """The number of each line of a curve from the top, `_HEIGHT` at most, and the lines from one tick to the next.

    Ticks are multiples of 1, 2 or 5 times a power of ten, and the first and the last line are ticks.

    >>> levels, lines = _levels(-3.1, 1.0)
    >>> levels[::lines].tolist(), len(levels)
    ([1.0, 0.0, -1.0, -2.0, -3.0, -4.0], 11)
    """
    if not bottom < top:
        return np.array([top]), 1
    power = 10.0 ** math.floor(math.log10((top - bottom) / 5))
    steps = (power * factor for factor in (1, 2, 5, 10, 20))
    ends = ((step, math.floor(bottom / step + 1e-9), math.ceil(top / step - 1e-9)) for step in steps)
    step, low, high = next(end for end in ends if end[2] - end[1] <= 5)
    lines = (_HEIGHT - 1) // (high - low)
    return np.linspace(high, low, (high - low) * lines + 1).round(9) * step, lines


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
        yield _nodes(dict(enumerate(parts, 1)), panel.structure.branching)
    elif isinstance(panel.structure, Grid):
        size = int(panel.places[:, 1].max())
        cells = [
            shading.cell(value, 2) + (f"{value:5.2f}" + " *"[i == panel.node]) for i, value in enumerate(panel.values)
        ]
        for start in range(0, len(labels), size):
            yield Text(" ").join(cells[start : start + size])
    else:
        yield from parts
    yield Text("*: the query", style="dim")
