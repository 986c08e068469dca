"""The task `grid_path`: the target marks the path from start to goal through a maze.

Shapes: R mazes, T cells in all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._mazes import carve, on_path
from ape_cli.tasks._sized import Sized, over_sizes

WALL, FREE, START, GOAL, PATH = range(FIRST_SYMBOL, FIRST_SYMBOL + 5)
_MOST_ROOMS = 500  # along a side


@dataclass(frozen=True, kw_only=True)
class GridPath(Sized):
    """Mark the path between two cells of a maze.

    The source is a grid of walls `#`, free cells `.`, one start `S` and one goal `G`. Its free cells form a tree
    (`_mazes.py`), so the path is unique, and the shortest. Start and goal are drawn uniformly from the free cells.

    The target has the free cells of the source in row-major order: `*` on the path, which includes both its ends, and
    `.` elsewhere. Walls are left out, because copying them would raise the token accuracy of every model. Which cells
    the target has follows from the source alone, and their positions say nothing about the path.

    The sides are odd. Height and width are drawn independently, each from N(`side_mean`, `side_std`^2) and rounded to
    the nearest odd number of at least 3. The size of a source is its longer side. With `sizes`, the grids are squares.

    Navigation among the tasks of Delétang et al. 2023 (arXiv:2207.02098) gives the position after a list of moves on a
    ring. Mazes are ours.

    Arguments: `side_mean` and `side_std`, of the distribution of each side, in cells. Raises `UsageError` if an option
    is out of range, or if all sides are equal and even.

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

    summary = "the path from start to goal through a maze"
    source = "ours; the grid of Algebraic Positional Encodings, section 3.3"
    extent: ClassVar[str] = "side"
    preset_options: ClassVar = {"small": {"side_mean": 7}}

    side_mean: float = option(11.0, "Mean height and width of a grid, in cells.")
    side_std: float = option(2.0, "Standard deviation of height and width.")

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest side that can be drawn, and an empty reason."""
        return 3, 2 * _MOST_ROOMS - 1, ""

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range, or if all sides are equal and even."""
        super().check()
        if self.side_std == 0 and self.side_mean % 2 != 1:
            raise UsageError("bad side", got=f"{self.side_mean:g}", allowed="odd numbers from 3", fix="choose another")

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a grid of two dimensions."""
        return "grid(2)"

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on."""
        return ["#", ".", "S", "G", "*"]

    @property
    def _rooms(self) -> tuple[float, float]:
        """Mean and standard deviation of the number of rooms along a side: a side of n rooms has 2n - 1 cells."""
        return (self.side_mean + 1) / 2, self.side_std / 2

    def _room_chances(self) -> np.ndarray:
        """The probability of n rooms along a side, for n = 1..500: float64 [500]. There are two rooms or more."""
        chance = rng.normal_chances(*self._rooms, 1, _MOST_ROOMS)
        chance[0] = 0
        return chance / chance.sum()

    @property
    @over_sizes
    def mean_size(self) -> float:
        """The mean of the longer side, in cells."""
        return 2 * rng.mean_of_largest(self._room_chances(), 1) - 1

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        """The mean number of cells: the square of the mean side, because the sides are independent."""
        return (2 * self._mean_rooms - 1) ** 2

    @property
    @over_sizes
    def mean_answer_tokens(self) -> float:
        """The mean number of free cells: n rooms and the n - 1 corridors between them."""
        return 2 * self._mean_rooms**2 - 1

    @property
    def _mean_rooms(self) -> float:
        """The mean number of rooms along a side."""
        return float(self._room_chances() @ np.arange(1, _MOST_ROOMS + 1))

    def draw(self, key: U64) -> Source:
        """Draw one maze for each key. uint64 [R] -> `Source` of R rows"""
        assert not self.sizes
        height, width = (rng.normal(rng.child(key, s), *self._rooms, 2, _MOST_ROOMS) for s in ("height", "width"))
        starts, position, free = carve(height, width, rng.child(key, "maze"))
        word = rng.bits(rng.child(key, "ends")[:, None], np.arange(2))
        count = 2 * height * width - 1
        start, goal = rng.below(word[:, 0], count), rng.below(word[:, 1], count - 1)
        goal += goal >= start  # all free cells but the start
        place, first = np.flatnonzero(free), ragged.starts_of(count)[:-1]
        symbol = np.where(free, FREE, WALL)
        symbol[place[first + start]], symbol[place[first + goal]] = START, GOAL
        return Source(starts, position, symbol, 2 * np.maximum(height, width) - 1)

    def answer(self, source: Source) -> Tokens:
        """The target of each source: its free cells, which are marked if they are on the path."""
        free, end = source.symbol != WALL, (source.symbol == START) | (source.symbol == GOAL)
        path = on_path(source.starts, source.position, free, end)
        kept = np.flatnonzero(free)
        starts = ragged.starts_of(np.add.reduceat(free, source.starts[:-1], dtype=np.int64))
        return Tokens(starts, source.position[kept], np.where(path[kept], PATH, FREE))
