"""The task `grid-path`: the target marks the path from start to goal through a maze.

A maze has $h × w$ rooms and corridors between some adjacent rooms. It is a grid of $(2h-1) × (2w-1)$ cells: room
$(i, j)$ is at $(2i, 2j)$, a corridor is between its two rooms, and all other cells are walls. The corridors form a
spanning tree of the rooms, so there is exactly one path between any two free cells.

Shapes: R mazes, N rooms in all, E pairs of adjacent rooms in all, T cells in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._grids import cells
from ape_cli.tasks._sized import Sized

Bool = NDArray[np.bool_]

WALL, FREE, START, GOAL, PATH = range(FIRST_SYMBOL, FIRST_SYMBOL + 5)
_MAX_ROOMS = 500  # along a side


@dataclass(frozen=True, kw_only=True)
class GridPath(Sized):
    """Mark the path between two cells of a maze.

    The source is a grid of walls `#`, free cells `.`, a start `S` and a goal `G`. The free cells form a tree, so the
    path is unique. Start and goal are drawn uniformly from the free cells.

    The target lists the free cells of the source in row-major order: `*` on the path, including both ends, and `.`
    elsewhere. Walls are left out, because copying them would raise the token accuracy of every model. The source alone
    determines which cells the target lists, and their positions reveal nothing about the path.

    Sides are odd. Height and width are drawn independently from a normal distribution and rounded to the nearest odd
    number of at least 3. The size of a source is its longer side. With `sizes`, grids are square.

    Navigation, a task of Delétang et al. 2023 (arXiv:2207.02098), asks for the position after a list of moves on a
    ring. Mazes are ours.

    Raises `UsageError` if an option is out of range, or if all sides are equal and even.

    >>> task = GridPath(side_mean=5, side_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=4).to_pylist()[0]
    >>> maze = "".join(task.id_names[i] for i in row["source_ids"])
    >>> [maze[i : i + 5] for i in range(0, 25, 5)]
    ['.#.#.', 'G#.#.', '.#S..', '.#.#.', '...#.']
    >>> "".join(task.id_names[i] for i in row["target_ids"])  # . . . / * . . / * *** / * * . / *** .
    '...*..**..**.***.'
    >>> row["target_positions"][:6]
    [[0, 0], [0, 2], [0, 4], [1, 0], [1, 2], [1, 4]]
    """

    structure = "grid(2)"
    summary = "the path from start to goal through a maze"
    source = "ours; the grid of Algebraic Positional Encodings, section 3.3"
    extent = "side"
    preset_options: ClassVar = {"small": {"side_mean": 7}}

    side_mean: float = option(11.0, "Mean height and width of a grid, in cells.")
    side_std: float = option(2.0, "Standard deviation of height and width, in cells.")

    limits = (3, 2 * _MAX_ROOMS - 1, "")

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range, or if all sides are equal and even."""
        super().check()
        if self.side_std == 0 and self.side_mean % 2 != 1:
            raise UsageError("bad side", got=f"{self.side_mean:g}", allowed="odd numbers from 3", fix="choose another")

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return ["#", ".", "S", "G", "*"]

    @property
    def _rooms(self) -> tuple[float, float]:
        """Mean and standard deviation of the number of rooms along a side: a side of n rooms has 2n - 1 cells."""
        return (self.side_mean + 1) / 2, self.side_std / 2

    def _room_chances(self) -> np.ndarray:
        """The probability of n rooms along a side, for n = 1..500: float64 [500]. There are two rooms or more."""
        chance = rng.normal_chances(*self._rooms, 1, _MAX_ROOMS)
        chance[0] = 0
        return chance / chance.sum()

    def expected_size(self) -> float:
        """The mean of the longer side, in cells."""
        return 2 * rng.mean_of_largest(self._room_chances(), 1) - 1

    def expected_tokens(self) -> float:
        """The mean number of cells: the square of the mean side, because the sides are independent."""
        return (2 * self._mean_rooms - 1) ** 2

    def expected_target_tokens(self) -> float:
        """The mean number of free cells: n rooms and the n - 1 corridors between them."""
        return 2 * self._mean_rooms**2 - 1

    @property
    def _mean_rooms(self) -> float:
        """The mean number of rooms along a side."""
        return float(self._room_chances() @ np.arange(1, _MAX_ROOMS + 1))

    def draw(self, key: U64) -> Source:
        """Draw one maze for each key. uint64 [R] -> `Source` of R rows"""
        height, width = (rng.normal(rng.child(key, s), *self._rooms, 2, _MAX_ROOMS) for s in ("height", "width"))
        offsets, position, free = carve(height, width, rng.child(key, "maze"))
        word = rng.bits(rng.child(key, "ends")[:, None], np.arange(2))
        count = 2 * height * width - 1
        start, goal = rng.below(word[:, 0], count), rng.below(word[:, 1], count - 1)
        goal += goal >= start  # all free cells but the start
        index, first = np.flatnonzero(free), ragged.offsets_of(count)[:-1]
        symbol = np.where(free, FREE, WALL)
        symbol[index[first + start]], symbol[index[first + goal]] = START, GOAL
        return Source(offsets, position, symbol, 2 * np.maximum(height, width) - 1)

    def target(self, source: Source) -> Tokens:
        """The target of each source: its free cells, which are marked if they are on the path."""
        free, end = source.symbol != WALL, (source.symbol == START) | (source.symbol == GOAL)
        path = on_path(source.offsets, source.position, free, end)
        kept = np.flatnonzero(free)
        offsets = ragged.offsets_of(np.add.reduceat(free, source.offsets[:-1], dtype=np.int64))
        return Tokens(offsets, source.position[kept], np.where(path[kept], PATH, FREE))


def carve(height: I64, width: I64, key: U64) -> tuple[I64, I64, Bool]:
    """Draw mazes of the given numbers of rooms.

    The spanning tree is the one of least total weight for independent random weights, as in Kruskal's algorithm with
    pairs of rooms in random order. This is not the uniform distribution of spanning trees.

    `height` and `width`: int64 [R], in rooms; `key`: uint64 [R]. Returns the offsets of the grids, int64 [R+1], the
    (row, column) of the cells, int64 [T, 2], and whether they are free, bool [T].
    """
    rooms, room, at = cells(height, width)
    wide, row = np.repeat(width, height * width), np.repeat(np.arange(key.size), height * width)
    right = np.flatnonzero(at[:, 1] < wide - 1)
    down = np.flatnonzero(at[:, 0] < np.repeat(height, height * width) - 1)
    start, end = np.concatenate([right, down]), np.concatenate([right + 1, down + wide[down]])
    address = 2 * room[start]
    address[right.size :] += 1
    kept = lightest_trees(start, end, rng.bits(key[row[start]], address), rooms[-1])
    offsets, _, position = cells(2 * height - 1, 2 * width - 1)
    lattice = offsets[:-1][row] + 2 * at[:, 0] * (2 * wide - 1) + 2 * at[:, 1]  # the cell of each room
    free = np.zeros(offsets[-1], dtype=bool)
    free[lattice] = True
    free[lattice[start[kept]] + np.where(kept < right.size, 1, 2 * wide[start[kept]] - 1)] = True
    return offsets, position, free


def lightest_trees(start: I64, end: I64, weight: U64, count: int) -> I64:
    """The edges of the minimum spanning trees of graphs, by Kruskal's algorithm.

    The upper 40 bits of a weight are compared, and then the numbers of the edges, so that no two edges are equally
    light.

    `start` and `end`: int64 [E], the nodes of each edge; `weight`: uint64 [E]; `count`: the number of nodes. Returns
    the numbers of the chosen edges in ascending order, int64.
    """
    order = np.argsort(weight >> np.uint64(24), kind="stable")
    above, taken = list(range(count)), []  # each node leads to the root of its tree

    def root(node: int) -> int:
        while above[node] != node:
            above[node] = node = above[above[node]]
        return node

    for edge, a, b in zip(order.tolist(), start[order].tolist(), end[order].tolist(), strict=True):
        if (root_a := root(a)) != (root_b := root(b)):
            above[root_a] = root_b
            taken.append(edge)
    return np.sort(np.array(taken, dtype=np.int64))


def on_path(offsets: I64, position: I64, free: Bool, end: Bool) -> Bool:
    """Mark the cells of the path between the two ends of each maze, ends included. bool [T]

    Dead ends are filled in, one cell after the other, until only the path is left.

    `offsets`: int64 [R+1]; `position`: int64 [T, 2], (row, column) in row-major order; `free`: bool [T]; `end`: bool
    [T], which marks two free cells of each maze.
    """
    width = np.repeat(position[offsets[1:] - 1, 1] + 1, np.diff(offsets))
    cell = np.flatnonzero(free)
    right = cell[position[cell, 1] + 1 < width[cell]]
    down = cell[cell + width[cell] < np.repeat(offsets[1:], np.diff(offsets))[cell]]
    ways = np.zeros(free.size, dtype=np.int64)  # the number of open ways out of each cell
    beyond = np.zeros(free.size, dtype=np.int64)  # the exclusive or of the cells at their ends: of the only one, itself
    for near, far in ((right, right + 1), (down, down + width[down])):
        is_free = free[far]
        here, there = near[is_free], far[is_free]
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
