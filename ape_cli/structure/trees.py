"""Trees of any branching k, many at once, as flat arrays of heap indices.

A forest of R trees with T nodes in all is a `row` [T] (which tree), a `heap` index [T] (which place;
the root is 1, the children of i are k(i-1)+2 .. k(i-1)+k+1, for binary trees 2i and 2i+1) and whatever
the nodes carry. Every operation is a formula on heap indices over whole arrays (`structure.Tree`); the
only loops are over levels, 62 at most, and over the k children.

Trees here are full: a node has k children or none. In level order the r-th inner node (from 0) of a
full tree has its children at places kr+1 .. kr+k. Only what `binarise` makes is not full.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import rng
from ape_cli.core.ragged import rows_of, starts_of
from ape_cli.core.rng import I64, U64
from ape_cli.structure import Tree
from ape_cli.structure.linearisation import Order

Bool = NDArray[np.bool_]


def grow(depth: I64, key: U64, branching: int = 2) -> tuple[I64, I64, Bool]:
    """Random trees of exactly these depths, in level order, rows in order.

    Of the children of a node of depth d one, at a place drawn uniformly, has depth d-1, and each other
    one a depth uniform on 0..d-1. The draw at a node is addressed by its heap index, so a tree is a
    function of its key alone. `depth`, `key`: [R]. Returns heap [T], starts [R+1], leaf [T].
    """
    row, heap = np.arange(depth.size), np.ones(depth.size, dtype=np.int64)
    counts = np.ones(depth.size, dtype=np.int64)
    levels: list[tuple[I64, I64, Bool, I64]] = []
    while row.size:
        leaf = depth == 0
        levels.append((row, heap, leaf, counts))
        inner = np.flatnonzero(~leaf)
        row, heap, depth = row[inner], heap[inner], depth[inner]
        counts = branching * np.bincount(row, minlength=key.size)
        depth = _depths_below(rng.bits(key[row], heap), depth, branching)
        row = np.repeat(row, branching)
        heap = _children(heap, branching).ravel()

    starts = starts_of(np.sum([counts for *_, counts in levels], axis=0, dtype=np.int64))
    out = np.empty(starts[-1], dtype=np.int64)
    leaves = np.empty(starts[-1], dtype=bool)
    free = starts[:-1].copy()  # where each row's next level goes
    for row, heap, leaf, counts in levels:
        place = (free - starts_of(counts)[:-1])[row]
        place += np.arange(row.size)
        out[place], leaves[place] = heap, leaf
        free += counts
    return out, starts, leaves


def _children(heap: I64, branching: int) -> I64:
    """The heap indices of each node's children. [T] -> [T, k]"""
    places = np.empty((heap.size, branching), dtype=np.int64)
    np.add(branching * heap, 2 - branching, out=places[:, 0])
    for c in range(1, branching):
        np.add(places[:, 0], c, out=places[:, c])
    return places


def _depths_below(word: U64, depth: I64, branching: int) -> I64:
    """Depths of the children of inner nodes, from each node's random word. [I], [I] -> [I * k]

    The lower half of the word draws the deep child's place (an odd number: the first of two), the
    upper half the depth of the first other child, words addressed from it the depths of the further ones.
    """
    children = np.empty((depth.size, branching), dtype=np.int64)
    if branching == 2:  # as below, without a choice for each child
        other, deep = rng.below(word, depth), depth - 1
        more = (word & np.uint64(1)).view(np.int64)
        more *= deep - other
        np.add(other, more, out=children[:, 0])
        np.subtract(deep, more, out=children[:, 1])
        return children.ravel()
    place = branching - 1 - ((word & np.uint64(0xFFFFFFFF)) % np.uint64(branching)).astype(np.int64)
    words = [word, *(rng.bits(word, np.array(e)) for e in range(1, branching - 1))]
    others = [rng.below(w, depth) for w in words]
    for c in range(branching):
        other = others[max(c - 1, 0)]  # where the deep child stands before this one
        if 0 < c < branching - 1:
            other = np.where(place < c, other, others[c])
        children[:, c] = np.where(place == c, depth - 1, other)
    return children.ravel()


def power(branching: int, exponent: I64) -> I64:
    """branching^exponent, by a shift where it is one."""
    power: I64 = 1 << exponent if branching == 2 else np.power(branching, exponent)
    return power


def mirror(heap: I64, branching: int = 2) -> I64:
    """The mirror image: children in reverse order at all depths, so each level read backwards.

    >>> mirror(np.array([1, 2, 3, 4, 5, 6, 7]))
    array([1, 3, 2, 7, 6, 5, 4])
    >>> mirror(np.array([1, 2, 3, 4, 5, 6, 7]), 3)
    array([ 1,  4,  3,  2, 13, 12, 11])
    """
    tree = Tree(branching)
    start = tree.level_start(tree.level(heap))
    # start + last - heap; a level has k^d = (k-1)(start-1) + 1 nodes
    flipped: I64 = (branching + 1) * start - (branching - 1) - heap
    return flipped


def graft(heap: I64, root: I64 | int, branching: int = 2) -> I64:
    """The same trees with their roots at `root` instead of 1.

    >>> graft(np.array([1, 2, 3]), 3)
    array([3, 6, 7])
    """
    moved: I64 = heap + (np.asarray(root, dtype=np.int64) - 1) * power(branching, Tree(branching).level(heap))
    return moved


def reroot(heap: I64, root: I64 | int, branching: int = 2) -> I64:
    """The heap index, seen from `root` as 1, of nodes that stand below it.

    >>> reroot(np.array([3, 6, 7, 12]), 3)
    array([1, 2, 3, 4])
    """
    tree, root = Tree(branching), np.asarray(root, dtype=np.int64)
    moved: I64 = heap - (root - 1) * power(branching, tree.level(heap) - tree.level(root))
    return moved


def children(starts: I64, leaf: Bool, branching: int = 2) -> tuple[I64, I64]:
    """Flat places of the inner nodes [I] and of their first children [I] (the others follow).

    For full trees in level order.
    """
    inner = np.flatnonzero(~leaf)
    row = rows_of(starts)[inner]
    before = np.searchsorted(inner, starts[:-1])  # inner nodes of the trees before each tree
    rank = np.arange(inner.size) - before[row]  # the r-th inner node of its tree
    return inner, starts[row] + branching * rank + 1


def binarise(heap: I64, branching: int) -> I64:
    """Left child, right sibling: the binary tree's heap index of each node of a k-ary tree.

    The left child is a node's first child, the right child its next sibling, so a step to child c (from
    0) is a step to the left and then c to the right: from place b to (2b + 1) 2^c - 1. Pre-order is kept.
    A path of d steps has k d at most; the caller sees to it that 62 are not exceeded.

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


def unbinarise(binary: I64, branching: int) -> I64:
    """The inverse of `binarise`: to the left is the first child, to the right the next sibling.

    >>> unbinarise(np.array([1, 2, 5, 11, 10, 21, 43]), 3)
    array([ 1,  2,  3,  4,  8,  9, 10])
    """
    depth = Tree(2).level(binary)
    heap = np.ones_like(binary)
    for d in range(1, int(depth.max(initial=0)) + 1):
        on = depth >= d
        right = (binary[on] >> (depth[on] - d)) & 1
        heap[on] = np.where(right, heap[on] + 1, branching * (heap[on] - 1) + 2)
    return heap


def in_level_order(starts: I64, heap: I64) -> bool:
    """Whether all rows stand in level order as they are: each heap index above the one before it."""
    rising = heap[1:] > heap[:-1]
    rising[starts[(starts > 0) & (starts < heap.size)] - 1] = True  # the next one begins a row
    return bool(rising.all())


def linearise(row: I64, heap: I64, order: Order, branching: int = 2) -> I64:
    """The permutation that puts nodes in row order and, within a row, in level order or pre-order.

    Level order is the heap index itself; pre-order is the path read from the left, an ancestor before
    its descendants. Both are one integer key where the bits suffice, else a sort by several keys.

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
    path = path << (deepest - depth) if branching == 2 else path * branching ** (deepest - depth)  # left-aligned
    return _order_by(row, row_bits, [(path, (branching**deepest - 1).bit_length()), (depth, 6)])


def _order_by(row: I64, row_bits: int, keys: list[tuple[I64, int]]) -> I64:
    """The permutation that sorts by row and then by these keys, each with its number of bits.

    As one integer where the bits suffice, and with the place in its lowest bits, so that a sort of values
    (several times faster than that of places) gives the permutation.
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


def mean_nodes(depth: int, branching: int = 2) -> float:
    """Expected number of nodes of a tree that `grow` makes at this depth."""
    mean = [1.0]
    for d in range(1, depth + 1):
        mean.append(1.0 + mean[d - 1] + (branching - 1) * sum(mean) / d)
    return mean[depth]


def leaves_distribution(depth: int, most: int, branching: int = 2) -> NDArray[np.float64]:
    """P(a tree of depth d has l leaves), for d = 0..depth and l = 0..most. [depth+1, most+1]"""
    chance = np.zeros((depth + 1, most + 1))
    chance[0, 1:2] = 1.0
    for d in range(1, depth + 1):
        others = _sum_of(chance[:d].mean(axis=0), branching - 1)
        chance[d] = np.convolve(chance[d - 1], others)[: most + 1]
    return chance


def _sum_of(chance: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The distribution of a sum of `count` independent draws from 0..most, up to most. [most+1] -> [most+1]"""
    if count == 1:
        return chance
    half = _sum_of(chance, count // 2)
    total = np.convolve(half, half)[: chance.size]
    return np.convolve(total, chance)[: chance.size] if count % 2 else total
