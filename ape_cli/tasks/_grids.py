"""What the grid tasks share: rectangles of symbols over a small vocabulary, so that symbols repeat.

Structure: the regular grid of two dimensions (paper, section 3.3). The tasks are ours. Positions are
(row, column) from 0; source and target stand in row-major order. There is no EOS: the end is in the
structure. Shapes: R grids, T cells in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, check_whole, letters
from ape_cli.tasks._sized import Sized, over_sizes

_MAX_SIDE = 1000


@dataclass(frozen=True, kw_only=True)
class Grids(Sized):
    """A grid drawn uniformly, height and width each from the discretised N(10, 1); subclasses say what becomes of it.

    The size of a source is its longer side; with `sizes` the grids are squares.
    """

    extent: ClassVar[str] = "side"
    source = "ours; the grid of Algebraic Positional Encodings, section 3.3"

    side_mean: float = 10.0
    side_std: float = 1.0
    vocabulary: int = 20

    @property
    def limits(self) -> tuple[int, int, str]:
        return 1, _MAX_SIDE, ""

    def check(self) -> None:
        super().check()
        check_whole("vocabulary", self.vocabulary, 1, 60_000)

    @property
    def structure(self) -> str:
        return "grid(2)"

    def draw(self, key: U64) -> Source:
        assert not self.sizes
        height, width = (
            rng.normal(rng.child(key, side), self.side_mean, self.side_std, 1, _MAX_SIDE)
            for side in ("height", "width")
        )
        starts, cell, position = cells(height, width)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), height * width), cell)
        symbol = FIRST_SYMBOL + rng.below(word, self.vocabulary)
        return Source(starts, position, symbol, np.maximum(height, width))

    def symbols(self) -> list[str]:
        return letters(self.vocabulary)

    @property
    @over_sizes
    def mean_size(self) -> float:
        """Mean of the longer side: the sum over n of n P(the longer one is n)."""
        chance = self._side_chances()
        longer = np.diff(np.cumsum(chance) ** 2, prepend=0.0)
        return float(longer @ np.arange(1, _MAX_SIDE + 1))

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        """Mean number of cells; the sides are independent."""
        return float(self._side_chances() @ np.arange(1, _MAX_SIDE + 1)) ** 2

    def _side_chances(self) -> np.ndarray:
        """P(a side is n), n = 1 .. 1000, of the discretised normal with its tails cut. [1000]"""
        edges = np.arange(1, _MAX_SIDE + 2) - 0.5 - self.side_mean
        if self.side_std == 0:
            chance = np.diff((edges > 0).astype(float))
        else:
            chance = np.diff([math.erf(x / (self.side_std * math.sqrt(2))) for x in edges])
        return chance / chance.sum()


def cells(height: I64, width: I64) -> tuple[I64, I64, I64]:
    """Grids in row-major order: starts [R+1], number of each cell in its grid [T], (row, column) [T, 2]."""
    starts = ragged.starts_of(height * width)
    cell = np.arange(starts[-1]) - np.repeat(starts[:-1], height * width)
    row, column = np.divmod(cell, np.repeat(width, height * width))
    return starts, cell, np.stack([row, column], axis=1)
