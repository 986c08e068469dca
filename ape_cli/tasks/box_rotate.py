"""The task `box-rotate`: the target is a box of symbols after a quarter turn about one of its axes.

Shapes: R rows, T tokens of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._grids import Grids, cells
from ape_cli.tasks._sized import check_amount

_LONGEST = 40  # the side at mean + 4 std, so that a box has at most 64,000 cells


@dataclass(frozen=True, kw_only=True)
class BoxRotate(Grids):
    """Rotate a box by a quarter turn about the axis x, y or z, counter-clockwise as seen from the end of the axis.

    Positions are $(x, y, z)$. In a box of $X × Y × Z$ cells, the cell $(x, y, z)$ moves to

    - $(x, Z-1-z, y)$ in a turn about x,
    - $(z, y, X-1-x)$ in a turn about y,
    - $(Y-1-y, x, z)$ in a turn about z.

    The source consists of the axis and the cells. The axis is drawn uniformly; it is a separate symbol at the origin
    $(0, 0, 0)$.

    Raises `UsageError` if an option is out of range.

    >>> task = BoxRotate(side_mean=2, side_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> "".join(task.id_names[i] for i in row["source_ids"]), row["source_positions"][:5]  # pp/lc behind bb/cn
    ('turn-ypplcbbcn', [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]])
    >>> "".join(task.id_names[i] for i in row["target_ids"])
    'bpclbpnc'
    """

    summary = "a box of symbols after a quarter turn about the axis x, y or z"
    axes = ("x", "y", "z")
    ops = ("x", "y", "z")
    preset_options: ClassVar = {"small": {"side_mean": 3.0, "side_std": 0.5}, "tiny": {"side_mean": 2.0}}

    side_mean: float = option(5.0, "Mean side of a box, in cells.")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().check()
        check_amount("cells a side", self.side_mean + 4 * self.side_std, _LONGEST)

    def draw(self, key: U64) -> Source:
        """Draw one axis and one box for each key. uint64 [R] -> `Source` of R rows with `op`"""
        box = super().draw(key)
        op = rng.below(rng.child(key, "axis"), 3)
        offsets = box.offsets + np.arange(box.offsets.size)  # each row gets the token of its axis first
        position, symbol = (np.insert(x, box.offsets[:-1], 0, axis=0) for x in (box.position, box.symbol))
        symbol[offsets[:-1]] = FIRST_SYMBOL + self.vocabulary + op
        return Source(offsets, position, symbol, box.size, op=op)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the turned box, without the axis."""
        assert source.op is not None
        held = np.ones(source.symbol.size, dtype=bool)
        held[source.offsets[:-1]] = False
        symbol, position = source.symbol[held], source.position[held]
        offsets = source.offsets - np.arange(source.offsets.size)
        row = ragged.rows_of(offsets)
        sides = position[offsets[1:] - 1] + 1  # [R, 3], from the last cell
        # About axis a, the next two axes b and c change places: b takes the mirrored c, and c takes b.
        a = source.op
        b, c = (a + 1) % 3, (a + 2) % 3
        every = np.arange(a.size)
        turned = sides.copy()
        turned[every, b], turned[every, c] = sides[every, c], sides[every, b]
        moved, every_cell = position.copy(), np.arange(row.size)
        moved[every_cell, b[row]] = turned[row, b[row]] - 1 - position[every_cell, c[row]]
        moved[every_cell, c[row]] = position[every_cell, b[row]]
        index = offsets[row] + (moved[:, 0] * turned[row, 1] + moved[:, 1]) * turned[row, 2] + moved[:, 2]
        turned_symbol = np.empty_like(symbol)
        turned_symbol[index] = symbol
        return Tokens(offsets, cells(*turned.T)[2], turned_symbol)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the cells' symbols, then the three axes."""
        return [*super().symbols(), *(f"turn-{axis}" for axis in self.axes)]

    def expected_tokens(self) -> float:
        """The mean number of cells, and the axis."""
        return super().expected_tokens() + 1
