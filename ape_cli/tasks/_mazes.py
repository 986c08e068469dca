"""Random mazes on grids, and the paths through them, for many mazes at once.

A maze has rooms in h rows and w columns, and a corridor of one cell between some rooms that are side by side. It is a
grid of (2h-1) x (2w-1) cells: the room (i, j) is at (2i, 2j), a corridor is between its two rooms, and all other cells
are walls. The corridors form a spanning tree of the rooms, so there is exactly one path between two free cells.

Shapes: R mazes, N rooms in all, E pairs of rooms in all that are side by side, T cells in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import rng
from ape_cli.core.rng import I64, U64
from ape_cli.tasks._grids import cells

Bool = NDArray[np.bool_]

_LOW = np.uint64(2**24 - 1)  # the bits of a weight that give way to the number of the edge
_MOST_NUMBERED = 2**24


def carve(height: I64, width: I64, key: U64) -> tuple[I64, I64, Bool]:
    """Draw mazes of the given numbers of rooms.

    The spanning tree is the one of least total weight for independent random weights, as in Kruskal's algorithm with
    pairs of rooms in random order. This is not the uniform distribution of spanning trees.

    `height` and `width`: int64 [R], in rooms; `key`: uint64 [R]. Returns the starts of the grids of cells, int64 [R+1],
    the (row, column) of the cells, int64 [T, 2], and whether they are free, bool [T].
    """
    rooms, room, at = cells(height, width)
    wide, row = np.repeat(width, height * width), np.repeat(np.arange(key.size), height * width)
    right = np.flatnonzero(at[:, 1] < wide - 1)
    down = np.flatnonzero(at[:, 0] < np.repeat(height, height * width) - 1)
    one, other = np.concatenate([right, down]), np.concatenate([right + 1, down + wide[down]])
    address = 2 * room[one]
    address[right.size :] += 1
    kept = lightest_trees(one, other, rng.bits(key[row[one]], address), rooms[-1])
    starts, _, position = cells(2 * height - 1, 2 * width - 1)
    lattice = starts[:-1][row] + 2 * at[:, 0] * (2 * wide - 1) + 2 * at[:, 1]  # the cell of each room
    free = np.zeros(starts[-1], dtype=bool)
    free[lattice] = True
    free[lattice[one[kept]] + np.where(kept < right.size, 1, 2 * wide[one[kept]] - 1)] = True
    return starts, position, free


def lightest_trees(one: I64, other: I64, weight: U64, count: int) -> I64:
    """The edges of the minimum spanning trees of graphs, by Borůvka's algorithm on all of them at once.

    In each round every tree of the forest takes the lightest edge that leaves it. The upper 40 bits of a weight are
    compared, and then the numbers of the edges, so that no two edges are equally light.

    `one` and `other`: int64 [E], the nodes of each edge; `weight`: uint64 [E]; `count`: the number of nodes. Returns
    the numbers of the chosen edges in ascending order, int64.
    """
    edge = _heaviest_first(weight)
    one, other = one[edge], other[edge]
    tree = np.arange(count)  # the tree that each root belongs to after a round
    roots, taken = tree, []
    lightest = np.full(count, -1)
    while edge.size:
        lightest[roots] = -1
        lightest[one] = np.arange(edge.size)  # the last one of several assignments stays, which is the lightest
        second = lightest[other]
        lightest[other] = np.arange(edge.size)
        lightest[other] = np.maximum(lightest[other], second)
        roots = roots[lightest[roots] >= 0]
        mine = lightest[roots]
        taken.append(edge[mine])
        tree[roots] = one[mine] + other[mine] - roots  # the root at the other end
        mutual = roots[(tree[tree[roots]] == roots) & (roots < tree[roots])]
        tree[mutual] = mutual
        while not np.array_equal(above := tree[tree[roots]], tree[roots]):
            tree[roots] = above
        roots = roots[tree[roots] == roots]
        one, other = tree[one], tree[other]
        apart = np.flatnonzero(one != other)
        edge, one, other = edge[apart], one[apart], other[apart]
    return np.unique(np.concatenate(taken)) if taken else edge


def _heaviest_first(weight: U64) -> I64:
    """The numbers of the edges by weight. Equal ones are in descending order. uint64 [E] -> int64 [E]

    A sort of values that have the number of the edge in their lowest bits is several times faster than an argsort.
    """
    word = weight & ~_LOW
    if weight.size > _MOST_NUMBERED:
        return np.argsort(word, kind="stable")[::-1]
    word |= np.arange(weight.size, dtype=np.uint64)
    word.sort()
    return (word[::-1] & _LOW).astype(np.int64)


def on_path(starts: I64, position: I64, free: Bool, end: Bool) -> Bool:
    """Mark the cells of the path between the two ends of each maze, ends included. bool [T]

    Dead ends are filled in, one cell after the other, until only the path is left.

    `starts`: int64 [R+1]; `position`: int64 [T, 2], (row, column) in row-major order; `free`: bool [T]; `end`: bool
    [T], which marks two free cells of each maze.
    """
    width = np.repeat(position[starts[1:] - 1, 1] + 1, np.diff(starts))
    cell = np.flatnonzero(free)
    right = cell[position[cell, 1] + 1 < width[cell]]
    down = cell[cell + width[cell] < np.repeat(starts[1:], np.diff(starts))[cell]]
    ways = np.zeros(free.size, dtype=np.int64)  # the number of open ways out of each cell
    beyond = np.zeros(free.size, dtype=np.int64)  # the exclusive or of the cells at their ends: of the only one, itself
    for near, far in ((right, right + 1), (down, down + width[down])):
        joined = free[far]
        here, there = near[joined], far[joined]
        for a, b in ((here, there), (there, here)):  # neither has a cell twice
            ways[a] += 1
            beyond[a] ^= b
    left = free.copy()
    dead = np.flatnonzero(free & ~end & (ways == 1))
    while dead.size:
        left[dead] = False
        onto = beyond[dead]
        np.subtract.at(ways, onto, 1)
        np.bitwise_xor.at(beyond, onto, dead)
        dead = np.unique(onto[(ways[onto] == 1) & ~end[onto]])
    return left
