"""Parts of the task `tree-ops`, to find out which of them is hard to learn.

Shapes: R rows, T nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import rng
from ape_cli.core.rng import I64, U64
from ape_cli.structure.trees import Bool
from ape_cli.tasks import option
from ape_cli.tasks.tree_ops import TreeOps


@dataclass(frozen=True, kw_only=True)
class TreeOpsPart(TreeOps):
    """`tree-ops` with one operator, or with pointers to inner nodes only. By default it is `tree-ops`."""

    summary = "tree-ops with one operator, or with pointers to inner nodes only"
    answer_options = ("mirror", "operator", "pointer")

    operator: str = option("all", "The operator of all rows.", among=("all", *TreeOps.ops))
    pointer: str = option("all", "The nodes that are pointed to: all, or inner nodes.", among=("all", "inner"))

    def point(self, starts: I64, leaf: Bool, key: U64) -> I64:
        """The index of the chosen node of each row: the root where the tree is a single leaf."""
        if self.pointer == "all":
            return super().point(starts, leaf, key)
        inner = np.append(np.flatnonzero(~leaf), leaf.size)
        first = np.searchsorted(inner, starts)  # [R + 1]: of each row's inner nodes
        count = np.diff(first)
        chosen = inner[np.minimum(first[:-1] + rng.below(key, np.maximum(count, 1)), inner.size - 1)]
        return np.where(count > 0, chosen, starts[:-1])

    def choose(self, key: U64) -> I64:
        """The operator of each row. uint64 [R] -> int64 [R]"""
        if self.operator == "all":
            return super().choose(key)
        return np.full(key.shape, self.ops.index(self.operator), dtype=np.int64)
