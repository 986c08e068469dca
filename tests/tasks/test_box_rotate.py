"""box-rotate: turns re-derived with rotation matrices, and by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.tasks.contract import check_uniform, in_splits, rows

TURNS = {  # the right-handed rotation by a quarter about each axis
    "x": [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
    "y": [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],
    "z": [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
}


def turned(cells: dict[tuple[int, ...], str], axis: str) -> dict[tuple[int, ...], str]:
    """The cells after a rotation about the origin, moved back so that the smallest coordinates are 0."""
    places = np.array(list(cells)) @ np.array(TURNS[axis]).T
    places -= places.min(axis=0)
    return dict(zip(map(tuple, places.tolist()), cells.values(), strict=True))


@pytest.mark.parametrize(
    ("options", "split"),
    in_splits([{"side_mean": 3, "side_std": 1}, {"side_mean": 2, "side_std": 0, "vocabulary": 30}]),
    ids=str,
)
def test_target_is_rederived(options: dict[str, Any], split: str) -> None:
    boxes = set()
    for row in rows("box-rotate", split=split, **options)[1]:
        axis, *symbols = row["source"]
        origin, *places = map(tuple, row["source_positions"])
        assert (axis, origin) == (f"turn-{row['op']}", (0, 0, 0))
        assert places == sorted(set(places))
        source = dict(zip(places, symbols, strict=True))
        target_places = list(map(tuple, row["target_positions"]))
        assert target_places == sorted(target_places)
        assert dict(zip(target_places, row["target"], strict=True)) == turned(source, row["op"])
        sides = tuple(1 + max(axis) for axis in zip(*places, strict=True))
        assert row["size"] == max(sides)
        assert len(symbols) == np.prod(sides)
        boxes.add(sides)
    assert len(boxes) > (10 if options["side_std"] else 0)


def test_axes_are_uniform() -> None:
    check_uniform(Counter(row["op"] for row in rows("box-rotate", side_mean=2)[1]), 3)
