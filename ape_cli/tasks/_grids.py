"""The base class of the grid tasks.

A grid is a rectangle, or a box, of symbols from a small vocabulary, so symbols repeat. Its structure is the regular
grid (paper, section 3.3). The tasks are ours. Positions are (row, column), or three coordinates, counted from 0.
Sources and targets are stored in row-major order: the last coordinate changes fastest. There is no EOS token, because
the structure determines where a grid ends.

The sides are drawn independently from a discretised normal distribution. The size of a source is its longest side. With
`sizes`, grids are square or cubic.

Shapes: R grids, T cells in all, C dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks._base import option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._task import Source, letters

_MAX_SIDE = 1000


@dataclass(frozen=True, kw_only=True)
class Grids(Sized):
    """A grid of symbols drawn uniformly. Subclasses define the target.

    Raises `UsageError` if an option is out of range.
    """

    extent = "side"
    axes: ClassVar[tuple[str, ...]] = ("height", "width")  # names of the sides, which are also those of their streams
    source = "ours; the grid of Algebraic Positional Encodings, section 3.3"

    side_mean: float = option(10.0, "Mean height and width of a grid, in cells.")
    side_std: float = option(1.0, "Standard deviation of the sides, in cells.")
    vocabulary: int = option(20, "Number of symbols.", between=(1, 60_000))

    limits = (1, _MAX_SIDE, "")

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a grid."""
        return f"grid({len(self.axes)})"

    def sides(self, key: U64) -> list[I64]:
        """Draw the sides of one grid for each key. uint64 [R] -> int64 [R] for each dimension"""
        return [rng.normal(rng.child(key, axis), self.side_mean, self.side_std, 1, _MAX_SIDE) for axis in self.axes]

    def draw(self, key: U64) -> Source:
        """Draw one grid for each key. uint64 [R] -> `Source` of R rows

        The size of each row is the longest side of its grid.
        """
        sides = self.sides(key)
        offsets, cell, position = cells(*sides)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), np.diff(offsets)), cell)
        symbol = FIRST_SYMBOL + rng.below(word, self.vocabulary)
        return Source(offsets, position, symbol, np.maximum.reduce(sides))

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return letters(self.vocabulary)

    def expected_size(self) -> float:
        """The mean of the longest side, in cells."""
        return rng.mean_of_largest(self._side_chances(), 1, len(self.axes))

    def expected_tokens(self) -> float:
        """The mean number of cells: a power of the mean side, because the sides are independent."""
        return float(self._side_chances() @ np.arange(1, _MAX_SIDE + 1)) ** len(self.axes)

    def _side_chances(self) -> np.ndarray:
        """The probability that a side is n, for n = 1..1000: float64 [1000]."""
        return rng.normal_chances(self.side_mean, self.side_std, 1, _MAX_SIDE)


def cells(*sides: I64) -> tuple[I64, I64, I64]:
    """Enumerate the cells of grids in row-major order.

    `sides`: int64 [R] for each dimension, for example height and width. Returns offsets int64 [R+1] (where each grid
    begins, and the end), the number of each cell in its grid int64 [T], and the cells' coordinates int64 [T, C].
    """
    count = np.multiply.reduce(sides)
    offsets = ragged.offsets_of(count)
    cell = ragged.indices_of(offsets)
    rest, coordinates = cell, []
    for side in reversed(sides):
        rest, coordinate = np.divmod(rest, np.repeat(side, count))
        coordinates.append(coordinate)
    return offsets, cell, np.stack(coordinates[::-1], axis=1)


def clockwise(first: I64, height: I64, width: I64) -> tuple[I64, I64]:
    """Where the cells of grids come from when the grids are turned clockwise.

    The turned grid's cell (i, j) is the cell (h-1-j, i) of a grid of h rows and w columns.

    `first`: int64 [R], the number of each grid's first cell; `height` and `width`: int64 [R]. Returns, for the cells
    of the turned grids in row-major order, the number of the cell that each one comes from, int64 [T], and their (row,
    column), int64 [T, 2].
    """
    _, _, position = cells(width, height)
    h, w, begin = (np.repeat(x, height * width) for x in (height, width, first))
    i, j = position.T
    return begin + (h - 1 - j) * w + i, position
