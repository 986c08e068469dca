"""The base class of tasks on trees in which no symbol occurs twice, so that a symbol is the address of its node.

Shapes: R trees (rows), T nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.structure import trees
from ape_cli.tasks import option
from ape_cli.tasks._trees import PlainTrees


@dataclass(frozen=True, kw_only=True)
class UniqueTrees(PlainTrees):
    """A source that has a tree with unique symbols below its root. Subclasses define the rest of it, and the target.

    The tree has depth d-1, so that the whole source has the drawn depth d. A tree that has more leaves than there are
    leaf symbols is drawn again.

    Arguments: those of `PlainTrees`. Raises `UsageError` if an option is out of range, or if the vocabulary is too
    small for unique symbols.
    """

    least_depth: ClassVar[int] = 1

    vocabulary: int = option(128, "Number of symbols.")

    def check(self) -> None:
        """Check the options.

        Raises `UsageError` if one is out of range, or if trees of the greatest depth would rarely fit the vocabulary.
        """
        super().check()
        depth = self.greatest_depth
        fits = trees.leaves_distribution(depth - 1, max(self.leaves, 2048), self.branching)[-1].cumsum()
        if fits[self.leaves] < 0.01:
            need = next((n for n, chance in enumerate(fits) if chance >= 0.5), None)
            got = f"{self.leaves} leaf symbols for source trees of depth up to {depth}"
            fix = f"--vocabulary {2 * need}, or shallower trees" if need else "shallower trees"
            raise UsageError("vocabulary is too small for unique nodes at this depth", got=got, fix=fix)

    def _grow(self, depth: I64, key: U64) -> tuple[I64, I64, np.ndarray]:
        """Draw trees whose leaves are at most as many as the leaf symbols, each the first such tree of its stream.

        `depth`: int64 [R]; `key`: uint64 [R]. Returns heap int64 [T], starts int64 [R+1], and leaf bool [T], like
        `structure.trees.grow`.
        """
        parts: list[tuple[I64, I64, np.ndarray]] = []
        chosen, pending, drawn = np.zeros(depth.size, dtype=np.int64), np.arange(depth.size), 0
        attempt = 0
        while pending.size:
            words = rng.bits(key[pending], np.array(attempt))
            heap, starts, leaf = trees.grow(depth[pending], words, self.branching)
            nodes = np.diff(starts)
            # A full tree of n nodes has n // branching inner nodes; all others are leaves.
            fits = nodes - nodes // self.branching <= self.leaves
            chosen[pending[fits]] = drawn + np.flatnonzero(fits)
            parts.append((heap, nodes, leaf))
            drawn += pending.size
            pending = pending[~fits]
            attempt += 1
        heap, sizes, leaf = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        place, starts = ragged.take(ragged.starts_of(sizes), chosen)
        return heap[place], starts, leaf[place]

    def _unique(self, starts: I64, leaf: np.ndarray, key: U64) -> I64:
        """A symbol for each node, counted from 0, so that no symbol occurs twice in a tree: int64 [T].

        The symbols come from a random permutation of the leaf symbols and one of the operators. `starts`: int64 [R+1];
        `leaf`: bool [T]; `key`: uint64 [R].
        """
        symbol = np.empty(leaf.size, dtype=np.int64)
        for kind, count, first in ((leaf, self.leaves, 0), (~leaf, self.operators, self.leaves)):
            used = np.add.reduceat(kind, starts[:-1], dtype=np.int64)
            shuffled = np.argsort(rng.bits(key[:, None], np.arange(first, first + count)), axis=1)
            symbol[np.flatnonzero(kind)] = first + shuffled[np.arange(count) < used[:, None]]
        return symbol
