"""Binary trees, many at once, as flat arrays of heap indices.

A forest of R trees with T nodes in all is a `row` [T] (which tree), a `heap` index [T] (which place;
the root is 1, the children of i are 2i and 2i+1) and whatever the nodes carry. Every operation is a
formula on heap indices over whole arrays; the only loops are over levels, 62 at most.

Trees here are full: a node has two children or none. In level order the k-th inner node (from 0) of
a full tree has its children at places 2k+1 and 2k+2.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ape_cli import streams
from ape_cli.ragged import rows_of, starts_of
from ape_cli.streams import I64, U64
from ape_cli.structure import level

Order = Literal["breadth", "depth"]
Bool = NDArray[np.bool_]


def grow(depth: I64, key: U64) -> tuple[I64, I64, Bool]:
    """Random trees of exactly these depths, in level order, rows in order.

    Of the two children of a node of depth d one has depth d-1 and the other a depth uniform on
    0..d-1, sides by a fair coin. The draw at a node is addressed by its heap index, so a tree is a
    function of its key alone. `depth`, `key`: [R]. Returns heap [T], starts [R+1], leaf [T].
    """
    count = depth.size
    row, heap = np.arange(count), np.ones(count, dtype=np.int64)
    levels: list[tuple[I64, I64, Bool]] = []
    sizes = np.zeros(count, dtype=np.int64)
    while row.size:
        inner = depth > 0
        levels.append((row, heap, ~inner))
        sizes += np.bincount(row, minlength=count)
        row, heap, depth = row[inner], heap[inner], depth[inner]
        word = streams.bits(key[row], heap)
        coin = (word & np.uint64(1)).astype(bool)
        deep, shallow = depth - 1, streams.below(word, depth)
        row, heap = np.repeat(row, 2), np.stack([2 * heap, 2 * heap + 1], axis=1).ravel()
        depth = np.stack([np.where(coin, deep, shallow), np.where(coin, shallow, deep)], axis=1).ravel()

    starts = starts_of(sizes)
    out = np.empty(starts[-1], dtype=np.int64)
    leaf = np.empty(starts[-1], dtype=bool)
    free = starts[:-1].copy()  # where each row's next level goes
    for row, heap, is_leaf in levels:
        counts = np.bincount(row, minlength=count)
        place = np.arange(row.size) + (free - (np.cumsum(counts) - counts))[row]
        out[place], leaf[place] = heap, is_leaf
        free += counts
    return out, starts, leaf


def mirror(heap: I64) -> I64:
    """The mirror image: every left is a right and the reverse. All path bits flip.

    >>> mirror(np.array([1, 2, 3, 4, 5, 6, 7]))
    array([1, 3, 2, 7, 6, 5, 4])
    """
    flipped: I64 = heap ^ ((1 << level(heap)) - 1)
    return flipped


def graft(heap: I64, root: I64 | int) -> I64:
    """The same trees with their roots at `root` instead of 1.

    >>> graft(np.array([1, 2, 3]), 3)
    array([3, 6, 7])
    """
    moved: I64 = heap + ((np.asarray(root) - 1) << level(heap))
    return moved


def below(heap: I64, root: I64) -> Bool:
    """Whether each node stands in the subtree at `root` (the root itself included)."""
    down = level(heap) - level(root)
    inside: Bool = (down >= 0) & ((heap >> np.maximum(down, 0)) == root)
    return inside


def reroot(heap: I64, root: I64 | int) -> I64:
    """The heap index, seen from `root` as 1, of nodes that stand below it.

    >>> reroot(np.array([3, 6, 7, 12]), 3)
    array([1, 2, 3, 4])
    """
    moved: I64 = heap - ((np.asarray(root) - 1) << (level(heap) - level(np.asarray(root))))
    return moved


def children(starts: I64, leaf: Bool) -> tuple[I64, I64]:
    """Flat places of the inner nodes [I] and of their left children [I] (the right ones follow).

    For full trees in level order.
    """
    inner = np.flatnonzero(~leaf)
    row = rows_of(starts)[inner]
    before = np.zeros(leaf.size + 1, dtype=np.int64)
    np.cumsum(~leaf, out=before[1:])
    rank = before[inner] - before[starts[row]]  # the k-th inner node of its tree
    return inner, starts[row] + 2 * rank + 1


def linearise(row: I64, heap: I64, order: Order) -> I64:
    """The permutation that puts nodes in row order and, within a row, in level order or pre-order.

    Level order is the heap index itself; pre-order is the path read from the left, an ancestor before
    its descendants. Both are one integer key where the bits suffice, else a sort by several keys.

    >>> linearise(np.zeros(5, int), np.array([1, 2, 3, 4, 5]), "depth")
    array([0, 1, 3, 4, 2])
    """
    if not row.size:
        return np.empty(0, dtype=np.int64)
    depth = level(heap)
    deepest = int(depth.max())
    row_bits = int(row.max()).bit_length()
    if order == "breadth":
        if row_bits + deepest + 1 <= 63:
            return np.argsort((row << (deepest + 1)) | heap, kind="stable")
        return np.lexsort((heap, row))
    path = (heap << (deepest - depth)) ^ (1 << deepest)  # left-aligned, without the leading one
    if row_bits + deepest + 6 <= 63:
        return np.argsort((((row << deepest) | path) << 6) | depth, kind="stable")
    return np.lexsort((depth, path, row))


def mean_nodes(depth: int) -> float:
    """Expected number of nodes of a tree that `grow` makes at this depth."""
    mean = [1.0]
    for d in range(1, depth + 1):
        mean.append(1.0 + mean[d - 1] + sum(mean) / d)
    return mean[depth]


def leaves_distribution(depth: int, most: int) -> NDArray[np.float64]:
    """P(a tree of depth d has l leaves), for d = 0..depth and l = 0..most. [depth+1, most+1]"""
    chance = np.zeros((depth + 1, most + 1))
    chance[0, 1:2] = 1.0
    for d in range(1, depth + 1):
        chance[d] = np.convolve(chance[d - 1], chance[:d].mean(axis=0))[: most + 1]
    return chance
