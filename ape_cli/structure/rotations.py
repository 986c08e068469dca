"""Rearrangements of trees other than the mirror image: the root's children reversed, and the rotation of search trees.

Shapes: R trees (rows), T nodes in all, k branches, as in `trees.py`.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.ragged import rows_of
from ape_cli.core.rng import I64
from ape_cli.structure import Tree
from ape_cli.structure.trees import power


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


_STAYS, _TURNS, _RISES = range(3)  # what happens to a node, see `rotate_right`


def rotate_right(starts: I64, heap: I64) -> I64:
    """The heap indices after right rotations of binary trees, from the root down.

    A node f whose left child p is an inner node becomes the right child of p. The three subtrees below them are rotated
    too. A node whose left child is a leaf stays, with everything below it:

        f(p(l, r), x) -> p(l', f(r', x')),    where l' is l rotated

    A tree of depth d becomes one of depth 2d at most. Heap indices have to be below 2^32. `starts`: int64 [R + 1],
    where each tree begins, and the end. int64 [T] -> int64 [T]

    >>> rotate_right(np.array([0, 5]), np.array([1, 2, 3, 4, 5]))  # f(p(l, r), x) -> p(l, f(r, x))
    array([3, 1, 7, 2, 6])
    """
    key = rows_of(starts) << 34 | heap  # tells the nodes of different trees apart, and their grandchildren
    order = np.argsort(key, kind="stable")
    known, level = key[order], Tree(2).level(heap)

    def there(keys: I64) -> np.ndarray:
        """Whether there are nodes with these keys."""
        return known[np.minimum(np.searchsorted(known, keys), known.size - 1)] == keys

    fate = np.full(heap.size, _STAYS)
    root = np.ones_like(heap)  # where the root of each node's subtree is put before it is rotated
    for depth in range(int(level.max(initial=0)) + 1):
        here = np.flatnonzero(level == depth)
        fate[here] = _TURNS
        if depth:
            above = order[np.searchsorted(known, key[here] - heap[here] + heap[here] // 2)]
            right, at = heap[here] & 1, root[above]
            below = [2 * at + right, np.where(right, 4 * at + 3, at), np.where(right, 4 * at + 2, 2 * at)]
            fates = [np.full_like(at, _STAYS), np.where(right, _TURNS, _RISES), np.full_like(at, _TURNS)]
            root[here], fate[here] = np.choose(fate[above], below), np.choose(fate[above], fates)
        turns = fate[here] == _TURNS
        left_is_inner = there(key[here] + 3 * heap[here])  # the key of the left child of the left child, at 4 heap
        fate[here[turns & ~left_is_inner]] = _STAYS
    return np.where(fate == _TURNS, 2 * root + 1, root)
