"""Rearrangements of trees other than the mirror image: the root's children reversed, and the rotation of search trees.

Shapes: R trees (rows), T nodes in all, k branches, as in `trees.py`.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core.ragged import rows_of
from ape_cli.core.rng import I64
from ape_cli.structure import Tree, bit_length
from ape_cli.structure.trees import graft, power, reroot


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


def rotate_right(starts: I64, heap: I64) -> I64:
    """The heap indices after right rotations of binary trees, from the root down the right side.

    A node whose left child p is an inner node becomes the right child of p, and the left child of this node becomes the
    second child of p. The same is done to what was its right child, and so on, until a left child is a leaf:

        f(p(l, r), right) -> p(l, f(r, rotated right)),    and every other tree stays

    The deepest tree becomes twice as deep. `starts`: int64 [R + 1], where each tree begins, and the end. int64 [T] ->
    int64 [T]

    >>> rotate_right(np.array([0, 5]), np.array([1, 2, 3, 4, 5]))  # f(p(l, r), x) -> p(l, f(r, x))
    array([3, 1, 7, 2, 6])
    """
    row, level = rows_of(starts), Tree(2).level(heap)
    side = level - bit_length((2 << level) - 1 - heap)  # number of steps to the right before the first to the left
    turns = _turns(row, heap, level, starts.size - 1)[row]
    above = np.minimum(side, turns)  # the node of the right side below which this node is moved
    old, new = (2 << above) - 1, (2 << 2 * above) - 1  # its place, and the place of what comes there
    within = reroot(heap, old)  # where the node is below `old`
    moved = graft(within, new)
    right = 2 * new + 1
    turned = side < turns
    moved = np.where(turned & (within == 1), right, moved)
    moved = np.where(turned & (within == 2), new, moved)
    for child, place in ((4, 2 * new), (5, 2 * right)):
        inside = turned & (level - above >= 2)
        inside[inside] = Tree(2).ancestor(within[inside], (level - above)[inside] - 2) == child
        moved[inside] = graft(reroot(within[inside], child), place[inside])
    return moved


def _turns(row: I64, heap: I64, level: I64, rows: int) -> I64:
    """The number of nodes of each tree's right side that are rotated. int64 [T] each -> int64 [R]

    These are the first ones, as long as the left child is an inner node.
    """
    first = (heap == (2 << level) - 4) & (level >= 2)  # a left child of a left child of the right side
    inner = np.zeros((rows, int(level.max(initial=0)) + 1), dtype=bool)
    inner[row[first], level[first] - 2] = True
    return np.logical_and.accumulate(inner, axis=1).sum(axis=1)
