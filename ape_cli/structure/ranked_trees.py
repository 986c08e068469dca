"""Trees of any shape, many at once, as flat arrays of parents and ranks.

The nodes of a tree are in pre-order: a node comes before its children, and the first node is the root. `parent` is the
number of a node's parent within its tree, and `rank` is the place of a node among its siblings. Trees whose nodes have
few enough children are stored as they are, with heap indices of `tree(k)`. Any tree can be binarised: the left child of
a node is its first child, and the right child is its next sibling (`trees.binarise` does this for full trees).

Shapes: R trees, T nodes in all, N chosen trees, k branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.rng import I64


@dataclass(frozen=True)
class RankedTrees:
    """Trees as flat arrays. Tree r has the nodes `offsets[r]` to `offsets[r + 1] - 1`. All arrays are int64."""

    offsets: I64  # [R+1], where each tree begins, and the end
    parent: I64  # [T], number of the parent within the tree; -1 for the root
    rank: I64  # [T], place among the siblings, from 0; 0 for the root

    def take(self, rows: I64) -> tuple[RankedTrees, I64]:
        """The chosen trees, in the given order, and the flat places of their nodes. `rows`: int64 [N]."""
        index, offsets = ragged.take(self.offsets, rows)
        return RankedTrees(offsets, self.parent[index], self.rank[index]), index

    @cached_property
    def above(self) -> I64:
        """The flat place of each node's parent; for a root, its own place. int64 [T]"""
        first = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return first + np.where(self.parent < 0, 0, self.parent)

    @cached_property
    def _levels(self) -> list[I64]:
        """The flat places of the nodes of each level, from the roots on."""
        levels = [np.flatnonzero(self.parent < 0)]
        on_level = self.parent < 0
        left = np.flatnonzero(~on_level)
        while left.size:
            reached = on_level[self.above[left]]
            levels.append(left[reached])
            on_level[levels[-1]] = True
            left = left[~reached]
        return levels

    @cached_property
    def children(self) -> I64:
        """The number of children of each node. int64 [T]"""
        return np.bincount(self.above[self.parent >= 0], minlength=self.parent.size)

    @cached_property
    def size(self) -> I64:
        """The number of nodes of the subtree at each node. int64 [T]"""
        size = np.ones_like(self.parent)
        for nodes in self._levels[:0:-1]:
            np.add.at(size, self.above[nodes], size[nodes])
        return size

    def mirrored(self) -> RankedTrees:
        """The trees with the children of each node in reverse order. The nodes stay in their places of the arrays.

        The result is therefore no longer in pre-order, which only `subtrees` needs.
        """
        rank = np.where(self.parent < 0, 0, self.children[self.above] - 1 - self.rank)
        return RankedTrees(self.offsets, self.parent, rank)

    def subtrees(self, roots: I64) -> tuple[RankedTrees, I64]:
        """The subtree at one node of each tree, and the flat places of its nodes. `roots`: int64 [R], flat places."""
        offsets = ragged.offsets_of(self.size[roots])
        index = ragged.ranges(roots, offsets)  # a subtree is contiguous in pre-order
        first = np.repeat(roots - self.offsets[:-1], np.diff(offsets))
        is_root = ragged.indices_of(offsets) == 0
        parent = np.where(is_root, -1, self.parent[index] - first)
        return RankedTrees(offsets, parent, np.where(is_root, 0, self.rank[index])), index

    def heap(self, branching: int | None) -> I64:
        """The heap index of each node in `tree(branching)`; in the binarised tree if `branching` is None. int64 [T]

        No node may have more than `branching` children, and no path may be too long for a heap index.

        >>> trees = RankedTrees(np.array([0, 4]), np.array([-1, 0, 0, 2]), np.array([0, 0, 1, 0]))  # f(x, g(y))
        >>> trees.heap(2), trees.heap(3), trees.heap(None)
        (array([1, 2, 3, 6]), array([1, 2, 3, 8]), array([ 1,  2,  5, 10]))
        """
        heap = np.ones_like(self.parent)
        for nodes in self._levels[1:]:
            over, rank = heap[self.above[nodes]], self.rank[nodes]
            heap[nodes] = ((2 * over + 1) << rank) - 1 if branching is None else branching * (over - 1) + 2 + rank
        return heap
