"""Drawings of a row: source and target as words, trees, grids, rings or products of two; or an image with its label.

An image in colour has two rows of pixels in a line of text. Without colours, each pixel is two characters in shades of
gray. An image that is too wide is drawn smaller, with the mean of a square for each pixel, and a line says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from rich.cells import set_cell_size
from rich.color import Color
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawn

from ape_cli.core import escaping
from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import shown
from ape_cli.data.manifest import Manifest
from ape_cli.reports.pictures import Curve, Diagram, Floats, HeatMap, Panel, colour, limit_of
from ape_cli.reports.pictures._places import names
from ape_cli.reports.terminal import FRAME
from ape_cli.storage import image_rows
from ape_cli.structure import Cyclic, Grid, Seq, Structure, Tree, factors_of
from ape_cli.tasks import size_words

_HALF = "▀"  # the upper half has the colour of the text, the lower half that of the background
_QUERY = "<query>"  # the root of a source of `trees --task query`
_SHADES = " ░▒▓█"  # from 0 to 255


def pair(manifest: Manifest, split: str, row: dict[str, Any]) -> Pair:
    """Source and target of a row. Raises `DataError` if the row is not valid."""
    plan = manifest.plan

    def side(name: str) -> RenderableType:
        """The source or the target, drawn as its structure."""
        names = [shown(manifest.vocabulary[i]) for i in row[f"{name}_ids"]]
        order = plan.source_order if name == "source" and plan.source_order else plan.order
        binarised = bool(plan.parameters.get("binarise"))
        return drawn(plan.structure, row[f"{name}_positions"], names, order=order, binarised=binarised)

    task = f"{plan.task} ({plan.parameters['task']})" if isinstance(plan.parameters.get("task"), str) else plan.task
    title = f"{task}, {split} row {row['row']}, {size_words(plan.task, str(plan.structure))[0]} {row['size']}"
    if row["op"] is not None:
        title += f", {row['op']}"
    return Pair(title, side("source"), side("target"))


@dataclass(frozen=True)
class Pair:
    """A source and a target: a table if both are narrow enough, else one below the other.

    In the table, the line below a tree may be folded.
    """

    title: str
    source: RenderableType
    target: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or title, source and target."""
        sides = {"source": self.source, "target": self.target}
        measured = [(side, Measurement.get(console, options, side)) for side in sides.values()]
        widths = [size.minimum if isinstance(side, DrawnTree) else size.maximum for side, size in measured]
        if sum(widths) + 2 * FRAME + 1 <= options.max_width:
            grid = Table(
                title=Text(self.title), title_justify="left", min_width=min(len(self.title), options.max_width)
            )
            for name in sides:
                grid.add_column(name, overflow="fold")
            grid.add_row(*sides.values())
            yield grid
            return
        yield Text(self.title, style="table.title")
        for name, side in sides.items():
            yield Text()
            yield Text(name, style="bold")
            yield side


@dataclass(frozen=True)
class DrawnTree:
    """A tree, and below it the line that is its linearisation. The line can be folded, and the tree cannot."""

    tree: Drawn
    line: Text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The widths of the tree alone and of both, in characters, for rich."""
        tree, line = (Measurement.get(console, options, each).maximum for each in (self.tree, self.line))
        return Measurement(tree, max(tree, line))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the tree and the line."""
        yield from (self.tree, Text(), self.line)


def labelled_image(manifest: Manifest, split: str, row: dict[str, Any]) -> RenderableType:
    """A table with the image, and its label in the title. The image of the row: nested lists, [H, W, C]."""
    pixels = np.array(row["pixels"], dtype=np.uint8)
    height, width, channels = pixels.shape
    title = f"{manifest.plan.task}, {split} row {row['row']}, label {row['label']}: {row['class']}"
    table = Table(title=Text(title), title_justify="left", min_width=len(title))
    table.add_column(f"{height} x {width} pixels, {'gray' if channels == 1 else 'RGB'}")
    table.add_row(Mosaic(pixels))
    return table


def drawn(
    structure: Structure, positions: Sequence[Any], names: list[str], *, order: str | None, binarised: bool
) -> RenderableType:
    """Draw the tokens of one side as their structure; as one line if there is no drawing of the structure.

    Arguments: `positions`, as they are stored, an int or a list of ints for each token; `names`, the readable name of
    each token; `order`, the linearisation of trees; `binarised`, whether trees are binarised. Raises `DataError` if a
    tree has no root.
    """
    factors = factors_of(structure)
    if len(factors) == 2:
        return _product(*factors, positions=positions, names=names, binarised=binarised)
    if isinstance(structure, Tree):
        line = Text(f"in {order} order: ", style="dim") + _line(names)
        return DrawnTree(_tree(positions, names, structure, binarised), line)
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
    if isinstance(outer, Seq) and isinstance(inner, Tree):
        return Group(*(_tree(at, labels, inner, binarised) for at, labels in held.values()))
    if outer == Grid((Seq(), Seq())) and inner == Seq() and _is_compact(list(held)):
        return _grid(
            {(outer_position[0], outer_position[1]): _line(labels) for outer_position, (_, labels) in held.items()},
            gap="  ",
        )
    if isinstance(outer, Tree) and inner == Grid((Seq(), Seq())) and all(_is_compact(at) for at, _ in held.values()):
        cells = {
            heap: _grid({(i, j): Text(name) for (i, j), name in zip(at, labels, strict=True)})
            for (heap,), (at, labels) in held.items()
        }
        return _nodes(cells, [""] * outer.branching)
    return _line(names)


def _tree(positions: Sequence[int], names: list[str], tree: Tree, binarised: bool) -> Drawn:
    """A tree with one node in a line. Raises `DataError` if it has no root.

    The target of the task `mask` has only some nodes of a tree. A missing node above one of them is drawn as a dot. An
    address and a tree stand below `<query>` as two children, in binarised trees too.
    """
    labels = {heap: Text(name) for heap, name in zip(positions, names, strict=True)}
    for heap in positions:
        while (heap := (heap - 2) // tree.branching + 1) > 1 and heap not in labels:
            labels[heap] = Text("·", style="dim")
    return _nodes(labels, ["first child: ", "next sibling: "] if binarised else [""] * tree.branching)


def _nodes(labels: dict[int, Text], sides: list[str], heap: int = 1, above: Drawn | None = None, at: str = "") -> Drawn:
    """The subtree of labels at a heap index, with the first child first.

    `sides`: what is written before each child. Raises `DataError` if the tree has no root.
    """
    if heap not in labels:
        raise DataError("the row is not a tree: it has no root", got=sorted(labels)[:8], fix="generate it again")
    label = Text(at, style="dim") + labels[heap]
    tree = Drawn(label) if above is None else above.add(label)
    written = [""] * len(sides) if str(labels[heap]) == _QUERY else sides
    for child, which in enumerate(written, len(sides) * (heap - 1) + 2):
        if child in labels:
            _nodes(labels, sides, child, tree, which)
    return tree


def _grid(cells: dict[tuple[int, int], Text], gap: str = " ") -> Text:
    """A line of text for each row of a grid, with aligned columns."""
    wide = max(len(cell) for cell in cells.values())
    height, width = (1 + max(outer_position[axis] for outer_position in cells) for axis in (0, 1))
    return Text(
        "\n".join(gap.join(str(cells.get((i, j), "")).ljust(wide) for j in range(width)) for i in range(height))
    )


def _ring(places: Sequence[int], names: list[str], order: int) -> RenderableType:
    """The ring from its origin on. Tokens before the ring, such as an offset, are on a line above it."""
    before = len(names) - order
    ring = Text("  ").join(
        Text(f"{index}:", style="dim") + Text(name) for index, name in zip(places[before:], names[before:], strict=True)
    )
    return Group(Text(" ".join(names[:before])), ring) if before else ring


@dataclass(frozen=True)
class Mosaic:
    """An image that rich can print. `pixels`: uint8 [H, W, C]."""

    pixels: np.ndarray

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The width in characters, for rich."""
        wide = self.pixels.shape[1] * _columns(console)
        return Measurement(min(wide, options.max_width), min(wide, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The characters, for rich."""
        height, width, _ = self.pixels.shape
        factor = -(-width * _columns(console) // options.max_width)
        if factor > 1:
            yield Text(f"1/{factor} of {height} x {width} pixels", style="dim")
        drawn = _smaller(self.pixels, factor)
        yield from _coloured(drawn) if _columns(console) == 1 else _shaded(drawn)


def _columns(console: Console) -> int:
    """The number of characters side by side that show one pixel."""
    return 2 if console.color_system is None or console.no_color else 1


def _smaller(pixels: np.ndarray, factor: int) -> np.ndarray:
    """The means of squares of pixels. uint8 [H, W, C] -> uint8 [ceil(H / factor), ceil(W / factor), C]"""
    image = image_rows.pillow()
    reduced = np.asarray(image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).reduce(factor))
    return reduced.reshape(*reduced.shape[:2], pixels.shape[2])


def _coloured(pixels: np.ndarray) -> Iterator[Segment]:
    """Half blocks in colour. pixels: uint8 [H, W, C]"""
    colours = np.broadcast_to(pixels, (*pixels.shape[:2], 3)).tolist()
    for upper, lower in zip_longest(colours[::2], colours[1::2]):
        for above, below in zip_longest(upper, lower or []):
            background = Color.from_rgb(*below) if below else None
            yield Segment(_HALF, Style(color=Color.from_rgb(*above), bgcolor=background))
        yield Segment.line()


def _shaded(pixels: np.ndarray) -> Iterator[Segment]:
    """Characters in shades of gray. pixels: uint8 [H, W, C]"""
    weights = np.array([0.299, 0.587, 0.114] if pixels.shape[2] == 3 else [1.0])  # luma, ITU-R BT.601
    level = np.minimum(pixels @ weights * len(_SHADES) / 256, len(_SHADES) - 1).astype(int)
    for row in level:
        yield Segment("".join(_SHADES[i] * 2 for i in row))
        yield Segment.line()


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
        yield _complete_tree(parts, panel.structure)
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


def _complete_tree(labels: list[Text], tree: Tree, index: int = 0, above: Drawn | None = None) -> Drawn:
    """A complete tree whose nodes are in level order."""
    node = Drawn(labels[index]) if above is None else above.add(labels[index])
    for child in range(tree.branching * index + 1, tree.branching * (index + 1) + 1):
        if child < len(labels):
            _complete_tree(labels, tree, child, node)
    return node
