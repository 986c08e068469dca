"""Trees with any number of branches k, many at once, as flat arrays of heap indices.

A forest of R trees with T nodes in all has two arrays: `row`, int64 [T], the number of each node's tree, and `heap`,
int64 [T], the heap index of each node. Further arrays [T] hold what the nodes carry. The heap index of the root is 1;
the children of i are k(i-1)+2 .. k(i-1)+k+1, which is 2i and 2i+1 for binary trees. Every operation is a formula on
heap indices over whole arrays (see `Tree` in `algebras.py`). The only loops are over levels (at most 62) and over the
k children.

The trees of this module are full: a node has k children or none. In level order, the r-th inner node (from 0) of a
full tree has its children at the places kr+1 .. kr+k. Only the results of `binarise` are not full.

`RankedTrees` are trees of any shape, as flat arrays of parents and ranks. The nodes of a tree are in pre-order: a node
comes before its children, and the first node is the root. Trees whose nodes have few enough children are stored as they
are, with heap indices of `tree(k)`. Any tree can be binarised: the left child of a node is its first child, and the
right child is its next sibling (`binarise` does this for full trees).

Shapes: R trees (rows), T nodes in all, N chosen trees, I inner nodes, k branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import ragged, rng
from ape_cli.core.ragged import offsets_of, rows_of
from ape_cli.core.rng import I64, U64
from ape_cli.structure import Tree
from ape_cli.structure.linearisation import Order

Bool = NDArray[np.bool_]


def grow(depth: I64, key: U64, branching: int = 2, *, redraw: bool = False) -> tuple[I64, I64, Bool]:
    """Random trees of exactly the given depths, in level order, one tree after the other.

    One child of a node of depth d has depth d-1; its place among the children is drawn uniformly. Each other child
    has a depth drawn uniformly from 0..d-1; with `redraw`, it is drawn again, once, if it is d-1. The random numbers of
    a node depend on the tree's key and the node's heap index, so a tree is a function of its key alone.

    `depth`: int64 [R]; `key`: uint64 [R]. Returns heap int64 [T], offsets int64 [R+1] (where each tree begins, and the
    end), and leaf bool [T].
    """
    row, heap, child = np.arange(depth.size), np.ones(depth.size, dtype=np.int64), np.arange(branching)
    levels: list[tuple[I64, I64, Bool]] = []
    while row.size:
        levels.append((row, heap, depth == 0))
        row, heap, depth = (x[depth > 0] for x in (row, heap, depth))
        depth = _depths_below(rng.bits(key[row], heap), depth, branching, redraw=redraw)
        row, heap = np.repeat(row, branching), ((branching * heap + 2 - branching)[:, None] + child).ravel()
    return by_row(levels, key.size)


def by_row(levels: list[tuple[I64, I64, Bool]], rows: int) -> tuple[I64, I64, Bool]:
    """Put the levels of trees, from the roots down, tree after tree.

    `levels`: row int64 [N], heap int64 [N] and leaf bool [N] of each level. Returns heap int64 [T], offsets int64
    [R+1], and leaf bool [T].
    """
    row, heap, leaf = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    order = np.argsort(row, kind="stable")  # within a row, the levels keep their order
    return heap[order], offsets_of(np.bincount(row, minlength=rows)), leaf[order]


def _depths_below(word: U64, depth: I64, branching: int, *, redraw: bool) -> I64:
    """The depths of the children of inner nodes, from one random word of each node.

    uint64 [I], int64 [I] -> int64 [I * k]

    The lower half of the word determines the place of the deep child (for two children, an odd number means the
    first). The upper half determines the depth of the first other child. The depths of further children, and second
    draws, come from further words, which are addressed from this one.
    """
    index = branching - 1 - ((word & np.uint64(0xFFFFFFFF)) % np.uint64(branching)).astype(np.int64)
    words = [word, *(rng.bits(word, np.array(e)) for e in range(1, branching - 1))]
    child = np.arange(branching)
    other = np.minimum(child - (child > index[:, None]), branching - 2)  # the number of each among the other children
    drawn = [rng.below(w, depth) for w in words]
    if redraw:
        again = (rng.below(rng.bits(w, np.array(0)), depth) for w in words)
        drawn = [np.where(first < depth - 1, first, second) for first, second in zip(drawn, again, strict=True)]
    below = np.take_along_axis(np.stack(drawn, axis=1), other, axis=1)
    below[np.arange(depth.size), index] = depth - 1
    return below.ravel()


def power(branching: int, exponent: I64) -> I64:
    """branching^exponent; a shift if `branching` is 2. int64 [...] -> int64 [...]"""
    power: I64 = 1 << exponent if branching == 2 else np.power(branching, exponent)
    return power


def mirror(heap: I64, branching: int = 2) -> I64:
    """The heap indices after mirroring: the children are reversed at all depths, so each level is read backwards.

    int64 [T] -> int64 [T]

    >>> mirror(np.array([1, 2, 3, 4, 5, 6, 7]))
    array([1, 3, 2, 7, 6, 5, 4])
    >>> mirror(np.array([1, 2, 3, 4, 5, 6, 7]), 3)
    array([ 1,  4,  3,  2, 13, 12, 11])
    """
    tree = Tree(branching)
    start = tree.level_start(tree.level(heap))
    # This is start + last - heap, because a level has k^d = (k-1)(start-1) + 1 nodes.
    flipped: I64 = (branching + 1) * start - (branching - 1) - heap
    return flipped


def reverse_root(heap: I64, branching: int = 2) -> I64:
    """The heap indices after reversing the children of the root alone. int64 [T] -> int64 [T]

    >>> reverse_root(np.array([1, 2, 3, 4, 5, 6, 7]))
    array([1, 3, 2, 6, 7, 4, 5])
    >>> reverse_root(np.array([1, 2, 3, 4, 5, 6, 7]), 3)
    array([ 1,  4,  3,  2, 11, 12, 13])
    """
    tree = Tree(branching)
    below = np.maximum(tree.level(heap) - 1, 0)
    child = tree.branch(tree.ancestor(heap, below))  # of the root, above each node
    moved: I64 = heap + (branching - 1 - 2 * child) * power(branching, below)
    return np.where(heap == 1, 1, moved)


def graft(heap: I64, root: I64 | int, branching: int = 2) -> I64:
    """The heap indices after moving each tree's root from 1 to `root`. int64 [T] -> int64 [T]

    >>> graft(np.array([1, 2, 3]), 3)
    array([3, 6, 7])
    """
    moved: I64 = heap + (np.asarray(root, dtype=np.int64) - 1) * power(branching, Tree(branching).level(heap))
    return moved


def reroot(heap: I64, root: I64 | int, branching: int = 2) -> I64:
    """The heap indices of nodes below `root`, counted as if `root` were 1.

    The inverse of `graft`. int64 [T] -> int64 [T]

    >>> reroot(np.array([3, 6, 7, 12]), 3)
    array([1, 2, 3, 4])
    """
    tree, root = Tree(branching), np.asarray(root, dtype=np.int64)
    moved: I64 = heap - (root - 1) * power(branching, tree.level(heap) - tree.level(root))
    return moved


def children(offsets: I64, leaf: Bool, branching: int = 2) -> tuple[I64, I64]:
    """The flat places of the inner nodes, int64 [I], and of their first children, int64 [I].

    The other children follow the first one. The trees have to be full and in level order. `offsets`: int64 [R+1],
    where each tree begins, and the end; `leaf`: bool [T].
    """
    inner = np.flatnonzero(~leaf)
    row = rows_of(offsets)[inner]
    before = np.searchsorted(inner, offsets[:-1])  # number of inner nodes in all earlier trees
    rank = np.arange(inner.size) - before[row]  # each is the r-th inner node of its tree
    return inner, offsets[row] + branching * rank + 1


def binarise(heap: I64, branching: int) -> I64:
    """Turn k-ary trees into binary ones (left child, right sibling): each node's heap index in the binary tree.

    The left child of a node is its first child, and the right child is its next sibling. A step to child c (from 0)
    of the k-ary tree is therefore one step to the left and then c steps to the right: from heap index b to (2b + 1)
    2^c - 1. Pre-order is preserved. A path of d steps becomes one of at most k d steps; the caller has to make sure
    that it does not exceed 62. int64 [T] -> int64 [T]

    >>> binarise(np.array([1, 2, 3, 4, 8, 9, 10]), 3)  # the children of 3 are 8, 9, 10
    array([ 1,  2,  5, 11, 10, 21, 43])
    """
    tree = Tree(branching)
    depth = tree.level(heap)
    binary = np.ones_like(heap)
    for d in range(1, int(depth.max(initial=0)) + 1):
        on = depth >= d
        child = tree.branch(tree.ancestor(heap[on], depth[on] - d))
        binary[on] = ((2 * binary[on] + 1) << child) - 1
    return binary


def in_level_order(offsets: I64, heap: I64) -> bool:
    """Whether all rows are in level order already, so that each heap index is above the one before it.

    `offsets`: int64 [R+1], where each row begins, and the end; `heap`: int64 [T].
    """
    rising = heap[1:] > heap[:-1]
    rising[offsets[(offsets > 0) & (offsets < heap.size)] - 1] = True  # the next node begins a row
    return bool(rising.all())


def linearise(row: I64, heap: I64, order: Order, branching: int = 2) -> I64:
    """The permutation that sorts nodes by row and, within a row, in level order or pre-order.

    int64 [T] each -> int64 [T]

    Level order sorts by heap index. Pre-order compares paths from the left and puts an ancestor before its
    descendants. Each is a sort of one integer key if it fits into the bits, else a sort by several keys.

    >>> linearise(np.zeros(5, int), np.array([1, 2, 3, 4, 5]), "depth")
    array([0, 1, 3, 4, 2])
    """
    if not row.size:
        return np.empty(0, dtype=np.int64)
    row_bits = int(row.max()).bit_length()
    if order == "breadth":
        return _order_by(row, row_bits, [(heap, int(heap.max()).bit_length())])
    tree = Tree(branching)
    depth = tree.level(heap)
    deepest = int(depth.max())
    path = heap - tree.level_start(depth)
    path = path << (deepest - depth) if branching == 2 else path * branching ** (deepest - depth)  # aligned to the left
    return _order_by(row, row_bits, [(path, (branching**deepest - 1).bit_length()), (depth, 6)])


def post_order(offsets: I64, heap: I64, branching: int = 2) -> I64:
    """The permutation that sorts the nodes of each row in post-order: int64 [T].

    This is the reverse of the pre-order of the mirror image. `offsets`: int64 [R+1]; `heap`: int64 [T].
    """
    mirrored = linearise(rows_of(offsets), mirror(heap, branching), "depth", branching)
    return mirrored[ragged.backwards(offsets)]


def _order_by(row: I64, row_bits: int, keys: list[tuple[I64, int]]) -> I64:
    """The permutation that sorts by row and then by the given keys, each with its number of bits. -> int64 [T]

    If the bits suffice, row and keys are packed into one integer, with the index of the node in its lowest bits. Then
    a sort of values gives the permutation, which is several times faster than an argsort.
    """
    place_bits = row.size.bit_length()
    if row_bits + sum(bits for _, bits in keys) + place_bits > 63:
        return np.lexsort([*(key for key, _ in reversed(keys)), row])
    word = row.copy()
    for key, bits in keys:
        word <<= bits
        word |= key
    word <<= place_bits
    word |= np.arange(row.size)
    word.sort()
    word &= (1 << place_bits) - 1
    return word


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
