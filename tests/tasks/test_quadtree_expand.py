"""quadtree-expand: the full grid re-derived by recursion over quarters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tasks.contract import in_splits, rows

Grid = list[list[str]]


def expanded(nodes: dict[int, Grid], heap: int, side: int) -> Grid:
    """The square of a node as a grid of `side` cells a side."""
    first = 4 * (heap - 1) + 2
    if first not in nodes:
        leaf = nodes.pop(heap)
        scale, rest = divmod(side, len(leaf))
        assert rest == 0
        return [[name for name in line for _ in range(scale)] for line in leaf for _ in range(scale)]
    assert nodes.pop(heap) == [["split"]]
    one, two, three, four = (expanded(nodes, child, side // 2) for child in range(first, first + 4))
    upper = [a + b for a, b in zip(one, two, strict=True)]
    return upper + [a + b for a, b in zip(three, four, strict=True)]


def grids(names: list[str], positions: list[list[int]]) -> dict[int, Grid]:
    """The grid of each node. Fails if cells are not in row-major order, or nodes not in level order."""
    assert positions == sorted(positions)
    found: dict[int, Grid] = {}
    for name, (heap, i, j) in zip(names, positions, strict=True):
        grid = found.setdefault(heap, [])
        if j == 0:
            grid.append([])
        assert (i, j) == (len(grid) - 1, len(grid[-1]))
        grid[-1].append(name)
    return found


@pytest.mark.parametrize(
    ("options", "split"),
    in_splits([{}, {"depth_mean": 1.5, "leaf": 3}, {"depth_mean": 2, "depth_std": 1, "leaf": 1, "vocabulary": 26}]),
    ids=str,
)
def test_target_is_rederived(options: dict[str, Any], split: str) -> None:
    leaf, depths = options.get("leaf", 2), set()
    for row in rows("quadtree-expand", split=split, **options)[1]:
        nodes = grids(row["source"], row["source_positions"])
        assert all(len(grid) in (1, leaf) and {len(line) for line in grid} == {len(grid)} for grid in nodes.values())
        assert grids(row["target"], row["target_positions"]) == {1: expanded(nodes, 1, leaf * 2 ** row["size"])}
        assert not nodes  # every node has a parent
        depths.add(row["size"])
    assert len(depths) > 1
