"""The task `forest_rotate`: the target is a sequence of trees, each of them mirrored.

Shapes: R rows, T nodes of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.structure import trees
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._forests import Forests


@dataclass(frozen=True, kw_only=True)
class ForestRotate(Forests):
    """Mirror each tree recursively, as `tree-rotate` does. The trees keep their order.

    >>> task = ForestRotate(order="breadth", trees_mean=2, trees_std=0, depth_mean=1, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f4(x4, x2), f3(x8, x5)
    (['f4', 'x4', 'x2', 'f3', 'x8', 'x5'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f4(x2, x4), f3(x5, x8)
    (['f4', 'x2', 'x4', 'f3', 'x5', 'x8'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    """

    summary = "the mirror image of each tree of a sequence: f(x, y) z -> f(y, x) z"

    def answer(self, source: Source) -> Tokens:
        """The target of each source: its trees in the same order, each one mirrored."""
        tree, heap = source.position.T
        mirrored = trees.mirror(heap, self.branching)
        return Tokens(source.starts, np.stack([tree, mirrored], axis=1), source.symbol)
