"""The task `c3`: expressions over the cyclic group of three elements, reduced by one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import trees
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._trees import Trees


@dataclass(frozen=True, kw_only=True)
class C3(Trees):
    """Replace every subtree of depth 1 by a leaf, once. The leaf is the sum of the subtree's leaves modulo 3.

    A tree that is a single leaf is its own target. Ids 3, 4 and 5 are the elements 0, 1 and 2; id 6 is `+`.

    >>> task = C3(order="breadth", depth_mean=2, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=5).to_pylist()[0]
    >>> row["source_positions"], row["source_ids"]  # 2 + (0 + 1)
    ([1, 2, 3, 6, 7], [6, 5, 6, 3, 4])
    >>> row["target_positions"], row["target_ids"]  # 2 + 1
    ([1, 2, 3], [6, 5, 4])
    """

    summary = "expressions of the cyclic group C3, one reduction step: (1 + 1) + 0 -> 2 + 0"

    leaves, operators = 3, 1  # the three elements of the group, and the addition

    def target(self, source: Source) -> Tokens:
        """The target of each source: the expression after one reduction step."""
        leaf = source.symbol < FIRST_SYMBOL + 3
        parent, first = trees.children(source.offsets, leaf, self.branching)
        ripe = leaf[first]
        for c in range(1, self.branching):
            ripe &= leaf[first + c]
        which = np.flatnonzero(ripe)
        parent, first = parent[which], first[which]
        total = np.zeros(parent.size, dtype=np.int64)
        kept = np.ones(leaf.size, dtype=bool)
        for c in range(self.branching):
            total += source.symbol[first + c] - FIRST_SYMBOL
            kept[first + c] = False
        symbol = source.symbol.copy()
        symbol[parent] = FIRST_SYMBOL + total % 3
        keep = np.flatnonzero(kept)
        row = ragged.rows_of(source.offsets)[keep]
        offsets = ragged.offsets_of(np.bincount(row, minlength=source.size.size))
        return Tokens(offsets, source.position[keep], symbol[keep])

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return ["0", "1", "2", "+"]
