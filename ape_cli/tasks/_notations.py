"""Notations: ways to write the nodes of a full tree as a sequence of symbols, without their positions.

Each notation below can be read again without positions, because a node has k children or none, and the symbols of
leaves differ from those of operators:

| notation | order | + over 1 and * over 2, 3 |
|---|---|---|
| `prefix` | an operator, then its children | `+ 1 * 2 3` |
| `postfix` | the children, then their operator | `1 2 3 * +` |
| `infix` | in brackets: the first child, the operator, the other children | `( 1 + ( 2 * 3 ) )` |
| `level` | level by level, from left to right | `+ 1 * 2 3` |

Shapes: R trees (rows), T nodes in all, S symbols that are written in all, k branches.
"""

from __future__ import annotations

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.rng import I64
from ape_cli.structure import Tree, trees

NOTATIONS = ("prefix", "postfix", "infix", "level")
OPENING, CLOSING = -1, -2  # places of brackets, which are no nodes


def written(starts: I64, heap: I64, notation: str, branching: int) -> tuple[I64, I64]:
    """Write full trees, which are in level order, in a notation.

    `starts`: int64 [R+1], where each tree begins, and the end; `heap`: int64 [T], the heap indices. Returns where each
    written row begins, and the end, int64 [R+1], and the place of the node that stands at each place of the writing,
    int64 [S]. A bracket has the place `OPENING` or `CLOSING`.

    >>> starts, heap = np.array([0, 5]), np.array([1, 2, 3, 6, 7])
    >>> [written(starts, heap, notation, 2)[1].tolist() for notation in ("prefix", "postfix", "infix")]
    [[0, 1, 2, 3, 4], [1, 3, 4, 2, 0], [-1, 1, 0, -1, 3, 2, 4, -2, -2]]
    """
    if notation == "level":
        return starts, np.arange(heap.size)
    if notation == "infix":
        return _infix(starts, heap, branching)
    return starts, _postfix(starts, heap, branching) if notation == "postfix" else _prefix(starts, heap, branching)


def _prefix(starts: I64, heap: I64, branching: int) -> I64:
    """The places of the nodes in pre-order. int64 [R+1], int64 [T] -> int64 [T]"""
    return trees.linearise(ragged.rows_of(starts), heap, "depth", branching)


def _postfix(starts: I64, heap: I64, branching: int) -> I64:
    """The places of the nodes in post-order. int64 [R+1], int64 [T] -> int64 [T]

    This is the reverse of the pre-order of the mirror image.
    """
    row = ragged.rows_of(starts)
    mirrored = trees.linearise(row, trees.mirror(heap, branching), "depth", branching)
    return mirrored[(starts[:-1] + starts[1:] - 1)[row] - np.arange(heap.size)]


def _infix(starts: I64, heap: I64, branching: int) -> tuple[I64, I64]:
    """The starts int64 [R+1] and the places int64 [S] of `written`, with brackets.

    A subtree of n nodes, of which i are inner ones, takes n + 2i symbols. Before it come the whole subtrees to its
    left, an opening bracket for each of its ancestors, and the operator of each ancestor that it is not in the first
    child of.
    """
    depth = Tree(branching).level(heap)
    prefix, postfix = _prefix(starts, heap, branching), _postfix(starts, heap, branching)
    # n is the rank in post-order minus the rank in pre-order, plus the depth and 1.
    nodes = _rank(postfix) - _rank(prefix) + depth + 1
    leaf, width = nodes == 1, nodes + 2 * (nodes // branching)
    inner, child = trees.children(starts, leaf, branching)  # with the first child of each inner node
    # Of the nodes before each one in pre-order, `depth` are its ancestors. The rows before count as they are written.
    opened = ~leaf[prefix]
    begin = np.empty_like(heap)
    begin[prefix] = np.arange(heap.size) + 2 * (np.cumsum(opened) - opened)
    begin += _later_steps(heap, depth, branching) - 2 * depth
    cut = ragged.starts_of(width[starts[:-1]])
    place = np.empty(cut[-1], dtype=np.int64)
    place[begin[leaf]] = np.flatnonzero(leaf)
    place[begin[inner]] = OPENING
    place[begin[inner] + 1 + width[child]] = inner
    place[begin[inner] + width[inner] - 1] = CLOSING
    return cut, place


def _rank(order: I64) -> I64:
    """The inverse of a permutation. int64 [T] -> int64 [T]"""
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank


def _later_steps(heap: I64, depth: I64, branching: int) -> I64:
    """The number of steps on the way to each node that lead to a child that is not the first. int64 [T] -> int64 [T]"""
    tree, steps = Tree(branching), np.zeros_like(heap)
    for up in range(int(depth.max(initial=0))):
        below = np.flatnonzero(depth > up)
        steps[below] += tree.branch(tree.ancestor(heap[below], np.full(below.size, up))) > 0
    return steps
