"""grid-path: mazes that are spanning trees, their paths by breadth-first search, and how both are drawn."""

from __future__ import annotations

from collections import Counter, deque
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import rng
from ape_cli.tasks import grid_path
from tests.tasks.contract import ROWS, check_uniform, in_splits, rows

Cell = tuple[int, int]


def cells(row: dict[str, Any], side: str) -> dict[Cell, str]:
    """Returns the name of the symbol of each cell, in the order of the row."""
    places = [tuple(place) for place in row[f"{side}_positions"]]
    assert len(set(places)) == len(places)
    return dict(zip(places, row[side], strict=True))


def beside(cell: Cell) -> list[Cell]:
    i, j = cell
    return [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]


def shortest_path(free: set[Cell], start: Cell, goal: Cell) -> set[Cell]:
    """Breadth-first search. Fails if the goal cannot be reached."""
    before: dict[Cell, Cell] = {start: start}
    agenda = deque([start])
    while agenda:
        cell = agenda.popleft()
        for other in beside(cell):
            if other in free and other not in before:
                before[other] = cell
                agenda.append(other)
    assert before.keys() == free, "a cell cannot be reached"
    path = {goal}
    while goal != start:
        goal = before[goal]
        path.add(goal)
    return path


def check(row: dict[str, Any]) -> Cell:
    """Checks a row and returns its numbers of cells along both sides."""
    maze, target = cells(row, "source"), cells(row, "target")
    height, width = (1 + max(axis) for axis in zip(*maze, strict=True))
    assert list(maze) == [(i, j) for i in range(height) for j in range(width)]
    assert height % 2 == width % 2 == 1
    assert row["size"] == max(height, width)
    free = {cell for cell, name in maze.items() if name != "#"}
    assert {(i, j) for i in range(0, height, 2) for j in range(0, width, 2)} <= free, "a room is walled up"
    assert not {(i, j) for i in range(1, height, 2) for j in range(1, width, 2)} & free, "a corner is open"
    joined = sum(other in free for cell in free for other in beside(cell)) // 2
    assert joined == len(free) - 1, "the free cells are not a tree"
    assert Counter(maze.values()) - Counter("#" * 10_000 + "." * 10_000) == Counter("SG")
    (start,), (goal,) = ([cell for cell, name in maze.items() if name == end] for end in "SG")
    path = shortest_path(free, start, goal)
    assert list(target) == sorted(free)
    assert target == {cell: "*" if cell in path else "." for cell in free}
    return height, width


@pytest.mark.parametrize(
    ("options", "split"), in_splits([{}, {"side_mean": 7, "side_std": 1}, {"side_mean": 4, "side_std": 2}]), ids=str
)
def test_target_is_rederived(options: dict[str, Any], split: str) -> None:
    task, found = rows("grid-path", split=split, count=ROWS if not options else ROWS // 5, **options)
    shapes = {check(row) for row in found}
    assert any(h < w for h, w in shapes)
    assert any(h > w for h, w in shapes)
    assert (task.structure, task.order, task.title) == ("grid(2)", None, "grid-path")


def test_mazes_have_the_distribution_of_kruskal_s_algorithm() -> None:
    """2 x 3 rooms have 7 pairs and 15 spanning trees. The chance of each is counted over all orders of the pairs."""
    rooms = list(product(range(2), range(3)))
    pairs = [(a, b) for a in rooms for b in rooms if a < b and b in beside(a)]
    chance: Counter[frozenset[Cell]] = Counter()
    for order in permutations(pairs):
        group = {room: room for room in rooms}
        walls = set()
        for a, b in order:
            if group[a] != group[b]:
                gone = group[b]
                group = {room: group[a] if g == gone else g for room, g in group.items()}
                walls.add((a[0] + b[0], a[1] + b[1]))
        chance[frozenset(walls)] += 1
    assert len(chance) == 15
    assert len(set(chance.values())) > 1, "the distribution is not uniform"
    count = 20_000
    keys = rng.rows(3, "mazes", np.arange(count))
    offsets, position, free = grid_path.carve(np.full(count, 2), np.full(count, 3), keys)
    found: Counter[frozenset[Cell]] = Counter()
    for maze in free.reshape(count, 15):
        open_cells = [tuple(place) for place in position[: offsets[1]][maze].tolist()]
        found[frozenset(cell for cell in open_cells if sum(cell) % 2)] += 1
    expected = {tree: count * times / 5_040 for tree, times in chance.items()}
    assert found.keys() == expected.keys()
    assert sum((found[t] - e) ** 2 / e for t, e in expected.items()) < 43  # 14 degrees of freedom: p = 1e-4


def test_ends_are_drawn_uniformly() -> None:
    """Mazes of 3 x 3 cells have seven free cells. Each ordered pair of them has the chance 1/42."""
    task = tasks.make("grid-path", side_mean=3, side_std=0)
    drawn = task.draw(np.arange(8_400, dtype=np.uint64) * np.uint64(7919))
    lines = drawn.symbol.reshape(-1, 9)
    free = lines[lines != 3].reshape(-1, 7)
    check_uniform(Counter(zip((free == 5).argmax(1).tolist(), (free == 6).argmax(1).tolist(), strict=True)), 42)


def test_sides_are_independent() -> None:
    """Their means are tested with those of all tasks."""
    drawn = tasks.make("grid-path", side_mean=4.4, side_std=1.0).draw(np.arange(10_000, dtype=np.uint64))
    sides = drawn.position[drawn.offsets[1:] - 1] + 1
    assert sides.min() >= 3
    assert abs(np.corrcoef(sides.T)[0, 1]) < 4 / 100
    assert len(np.unique(sides)) > 2
