"""The task `forest-reverse`: the target is a sequence of trees in reverse order.

Shapes: R rows, T nodes of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.tasks import Source, Tokens
from ape_cli.tasks.forest_rotate import ForestRotate


@dataclass(frozen=True, kw_only=True)
class ForestReverse(ForestRotate):
    """Reverse the order of a sequence of trees, which do not change themselves. Sources are those of `forest-rotate`.

    >>> task = ForestReverse(order="breadth", trees_mean=2, trees_std=0, depth_mean=1, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f4(x4, x2), f3(x8, x5)
    (['f4', 'x4', 'x2', 'f3', 'x8', 'x5'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f3(x8, x5), f4(x4, x2)
    (['f3', 'x8', 'x5', 'f4', 'x4', 'x2'], [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    """

    summary = "a sequence of trees in reverse order: f(x, y) z -> z f(x, y)"

    def target(self, source: Source) -> Tokens:
        """The target of each source: tree i of n trees moves to the place n - 1 - i."""
        tree, heap = source.position.T
        last = np.maximum.reduceat(tree, source.offsets[:-1])
        moved = np.repeat(last, np.diff(source.offsets)) - tree
        return Tokens(source.offsets, np.stack([moved, heap], axis=1), source.symbol)
