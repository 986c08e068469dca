"""The task `forest-rotate`: the target is a sequence of trees, each mirrored.

The structure is `seq*tree(k)` (Algebraic Positional Encodings, section 3.4.3: "sequences of trees"). The first
coordinate of a position is the index of the tree in the sequence, from 0; the second is the heap index of the node in
the tree. Sources and targets store one tree after the other, each in the node order of the dataset.

Shapes: R rows, S trees of all rows, T nodes of all trees, k branches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.structure import trees
from ape_cli.structure.linearisation import Order
from ape_cli.tasks import Rows, Source, Tokens, option
from ape_cli.tasks._sized import check_amount, check_normal
from ape_cli.tasks._trees import PlainTrees

_MAX_TREES = 1000
_MAX_NODES = 1_000_000  # the expected number of nodes of a row with the greatest number of the deepest trees


@dataclass(frozen=True, kw_only=True)
class ForestRotate(PlainTrees):
    """Mirror each tree of a sequence recursively, as `tree-rotate` does. The order of the trees does not change.

    The number of trees and the depth of each tree are drawn independently. The size of a source is the depth of its
    deepest tree. With `sizes`, all trees of a source have the same depth.

    Raises `UsageError` if an option is out of range, or if rows would be too large.

    >>> task = ForestRotate(order="breadth", trees_mean=2, trees_std=0, depth_mean=1, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f4(x4, x2), f3(x8, x5)
    (['f4', 'x4', 'x2', 'f3', 'x8', 'x5'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f4(x2, x4), f3(x5, x8)
    (['f4', 'x2', 'x4', 'f3', 'x5', 'x8'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    """

    summary = "the mirror image of each tree of a sequence: f(x, y) z -> f(y, x) z"
    source = "ours; the sequences of trees of Algebraic Positional Encodings, section 3.4.3"
    positions_given = True  # the shape of each tree of the target is that of a tree of the source
    size_words = ("depth", "depth of the deepest tree, steps from the root")
    preset_options: ClassVar = {
        "small": {"trees_mean": 4.0, "trees_std": 1.0, "depth_mean": 2.0, "depth_std": 0.5},
        "tiny": {"trees_mean": 2.0, "trees_std": 0.5, "depth_mean": 1.0, "depth_std": 0.5},
    }

    depth_mean: float = option(4.0, "Mean depth of a tree, in levels.")
    trees_mean: float = option(6.0, "Mean number of trees.")
    trees_std: float = option(1.0, "Standard deviation of the number of trees.")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the rows would be too large."""
        super().check()
        check_normal("trees_mean and trees_std", self.trees_mean, self.trees_std, 1, _MAX_TREES)
        count = self.trees_mean + 4 * self.trees_std
        check_amount("nodes", count * self.nodes(self.expected_max_depth), _MAX_NODES)

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a sequence of trees, in the form that is stored."""
        return f"seq*{super().structure}"

    def draw(self, key: U64) -> Source:
        """Draw one sequence of trees for each key, each tree in level order. uint64 [R] -> `Source` of R rows"""
        count = rng.normal(rng.child(key, "count"), self.trees_mean, self.trees_std, 1, _MAX_TREES)
        first = ragged.offsets_of(count)  # [R+1], the first tree of each row
        index = ragged.indices_of(first)  # [S], of each tree in its row
        drawn = super().draw(rng.bits(np.repeat(rng.child(key, "trees"), count), index))
        position = np.stack([np.repeat(index, np.diff(drawn.offsets)), drawn.position], axis=1)
        return Source(drawn.offsets[first], position, drawn.symbol, np.maximum.reduceat(drawn.size, first[:-1]))

    def target(self, source: Source) -> Tokens:
        """The target of each source: its trees in the same order, each one mirrored."""
        tree, heap = source.position.T
        mirrored = trees.mirror(heap, self.branching)
        return Tokens(source.offsets, np.stack([tree, mirrored], axis=1), source.symbol)

    def store(self, rows: Rows) -> Rows:
        """The rows as the dataset holds them: of binary trees if `binarise` is set, else unchanged."""
        if not self.binarise:
            return rows
        tree, heap = rows.position.T
        stored = super().store(replace(rows, position=heap))
        return replace(stored, position=np.stack([tree, stored.position], axis=1))

    def _linear(self, tokens: Tokens, order: Order | None) -> tuple[I64, I64, I64]:
        """The rows of one side, tree after tree, each tree in an order. Shapes are those of `Task._linear`."""
        assert order is not None
        tree, heap = tokens.position.T
        row = ragged.rows_of(tokens.offsets)
        number = row * (int(tree.max(initial=0)) + 1) + tree  # rises from tree to tree
        line = trees.linearise(number, heap, order, 2 if self.binarise else self.branching)
        return tokens.offsets, tokens.position[line], tokens.symbol[line]

    def expected_size(self) -> float:
        """The mean depth of the deepest tree of a source, in the form that is stored."""
        return self._measured_size

    def expected_tokens(self) -> float:
        """The expected number of nodes of all trees."""
        return self.trees_mean * self.expected(self.nodes)
