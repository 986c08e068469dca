"""grid-copy and grid-rotate: targets re-derived with plain lists and with NumPy's rotation, and the drawn sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from tests.tasks.contract import rows


def grid(symbols: list[int], positions: list[list[int]]) -> list[list[int]]:
    """The grid as a list of rows. Fails if the cells are not a rectangle in row-major order."""
    height, width = (1 + max(axis) for axis in zip(*positions, strict=True))
    assert positions == [[i, j] for i in range(height) for j in range(width)]
    return [symbols[i * width : (i + 1) * width] for i in range(height)]


def clockwise(cells: list[list[int]]) -> list[list[int]]:
    """Each column, read upwards, is a row."""
    return [[row[i] for row in reversed(cells)] for i in range(len(cells[0]))]


@pytest.mark.parametrize("options", [{}, {"side_mean": 2.5, "side_std": 1}])
@pytest.mark.parametrize("name", ["grid-copy", "grid-rotate"])
def test_target_is_rederived(name: str, options: dict[str, Any]) -> None:
    shapes = set()
    for row in rows(name, **options)[1]:
        source = grid(row["source_ids"], row["source_positions"])
        target = grid(row["target_ids"], row["target_positions"])
        assert target == (source if name == "grid-copy" else clockwise(source))
        if name == "grid-rotate":
            assert target == np.rot90(source, k=-1).tolist()
        assert row["size"] == max(len(source), len(source[0]))
        assert row["op"] is None
        shapes.add((len(source), len(source[0])))
    assert any(h < w for h, w in shapes)
    assert any(h > w for h, w in shapes)


def test_sides_are_independent_and_rounded() -> None:
    drawn = tasks.make("grid-copy").draw(np.arange(20_000, dtype=np.uint64) * np.uint64(7919))
    sides = drawn.position[drawn.offsets[1:] - 1] + 1  # the last cell is in the last row and column
    assert (abs(sides.mean(axis=0) - 10.0) < 4 / 20_000**0.5).all()
    assert (abs(sides.std(axis=0) - np.sqrt(1 + 1 / 12)) < 0.03).all()  # rounding adds a twelfth to the variance
    assert abs(np.corrcoef(sides.T)[0, 1]) < 4 / 20_000**0.5
