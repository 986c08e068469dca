"""The task `quadtree-expand`: the source is a quadtree with small grids as leaves; the target is the full grid.

Shapes: R rows, T tokens of all sources, U cells of all targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Source, Tokens, letters, option
from ape_cli.tasks._grids import cells
from ape_cli.tasks._sized import Sized, check_amount
from ape_cli.tasks._trees import mean_nodes

_QUARTERS = 4
_LONGEST = 256  # side of the full grid at depth mean + 4 std


@dataclass(frozen=True, kw_only=True)
class QuadtreeExpand(Sized):
    """Expand a quadtree of small grids into the grid that it describes.

    The structure is `tree(4)*grid(2)` (Algebraic Positional Encodings, section 3.4.3: "trees of grids"). The first
    coordinate of a position is the heap index of a node. The others are row and column in the node's grid, from 0.

    For leaves of $g × g$ cells and a tree of depth $d$, the root represents a square with sides of $g 2^d$ cells. An
    inner node divides its square into quarters: its children are the upper left, upper right, lower left and lower
    right. It has a single token, `split`, at $(0, 0)$. A leaf has $g × g$ symbols, which are stretched to the size of
    its square. The target is the full grid, placed at the root.

    Trees are drawn as in `tree-copy` with branching 4. Nodes are stored in level order, the cells of a leaf in
    row-major order. The size of a source is the depth of its tree.

    Raises `UsageError` if an option is out of range, or if grids would be too large.

    >>> task = QuadtreeExpand(depth_mean=1, depth_std=0, leaf=1)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]
    (['split', 'l', 'n', 'e', 'r'], [[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 0, 0]])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]
    (['l', 'n', 'e', 'r'], [[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]])
    """

    extent = "depth"
    structure = f"tree({_QUARTERS})*grid(2)"
    summary = "the full grid described by a quadtree with small grids as leaves"
    source = "ours; the trees of grids of Algebraic Positional Encodings, section 3.4.3"
    positions_given = True  # the side of the full grid follows from the depth of the source
    preset_options: ClassVar = {
        "small": {"depth_mean": 1.5, "depth_std": 0.5},
        "tiny": {"depth_mean": 1.0, "depth_std": 0.0},
    }

    depth_mean: float = option(2.0, "Mean depth of a tree, in levels.")
    depth_std: float = option(0.5, "Standard deviation of the depth.")
    leaf: int = option(2, "Side of the grid at each leaf of a quadtree, in cells.", between=(1, _LONGEST))
    vocabulary: int = option(20, "Number of symbols, split not counted.", between=(1, 60_000))

    limits = (0, Tree(_QUARTERS).max_depth, " (the deepest tree(4) that heap indices hold)")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the grids would be too large."""
        super().check()
        check_amount("cells a side", self.leaf << round(self.depth_mean + 4 * self.depth_std), _LONGEST)

    def draw(self, key: U64) -> Source:
        """Draw one quadtree for each key. uint64 [R] -> `Source` of R rows"""
        depth = self.draw_sizes(key)
        heap, offsets, leaf = trees.grow(depth, rng.child(key, "shape"), _QUARTERS)
        side = np.where(leaf, self.leaf, 1)
        token_offsets, cell, corner = cells(side, side)
        row_offsets = token_offsets[offsets]
        node = np.repeat(heap, side * side)
        symbols = np.repeat(rng.child(key, "symbols"), np.diff(row_offsets))
        word = rng.bits(rng.bits(symbols, node), cell)
        cells_of_leaves, symbol = np.repeat(leaf, side * side), rng.below(word, self.vocabulary)
        symbol = FIRST_SYMBOL + np.where(cells_of_leaves, symbol, self.vocabulary)
        return Source(row_offsets, np.column_stack([node, corner]), symbol, depth)

    def target(self, source: Source) -> Tokens:
        """The target of each source: the full grid at the root of the tree."""
        row = ragged.rows_of(source.offsets)
        held = np.flatnonzero(source.symbol < FIRST_SYMBOL + self.vocabulary)  # the cells of leaves
        row, (heap, i, j), symbol = row[held], source.position[held].T, source.symbol[held]
        top, left, level = _squares(heap)
        scale = 1 << (source.size[row] - level)  # how many cells of the full grid a cell becomes in each direction
        side = self.leaf << source.size  # [R]
        offsets, _, corner = cells(side, side)
        first, _, inside = cells(scale, scale)
        copies = np.diff(first)
        down = np.repeat((top * self.leaf + i) * scale, copies) + inside[:, 0]
        across = np.repeat((left * self.leaf + j) * scale, copies) + inside[:, 1]
        grid = np.empty(offsets[-1], dtype=np.int64)
        grid[np.repeat(offsets[row], copies) + down * np.repeat(side[row], copies) + across] = np.repeat(symbol, copies)
        return Tokens(offsets, np.column_stack([np.ones_like(grid), corner]), grid)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the cells' symbols, then `split`."""
        return [*letters(self.vocabulary), "split"]

    def expected_tokens(self) -> float:
        """The expected number of tokens: one for each inner node, and those of the leaves."""
        nodes = self.expected(lambda depth: mean_nodes(depth, _QUARTERS))
        inner = (nodes - 1) / _QUARTERS
        return inner + (nodes - inner) * self.leaf**2

    def expected_target_tokens(self) -> float:
        """The expected number of cells of the full grid."""
        return self.expected(lambda depth: float((self.leaf << depth) ** 2))


def _squares(heap: I64) -> tuple[I64, I64, I64]:
    """The square of each node among the 2^d x 2^d squares of its level d: its row, its column, and the level.

    int64 [T] -> int64 [T] each
    """
    tree = Tree(_QUARTERS)
    level = tree.level(heap)
    path = heap - tree.level_start(level)  # one digit of base 4 for each level, the last step lowest
    top, left = np.zeros_like(heap), np.zeros_like(heap)
    for step in range(int(level.max(initial=0))):
        quarter = (path >> (2 * step)) & 3
        top |= (quarter >> 1) << step
        left |= (quarter & 1) << step
    return top, left, level
