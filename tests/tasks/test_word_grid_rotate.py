"""word-grid-rotate: the grid re-derived as a list of lists of words."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from tests.tasks.contract import in_splits, rows

Words = list[list[str]]


def words(names: list[str], positions: list[list[int]]) -> Words:
    """The grid as rows of words. Fails if the words are not in row-major order, or their symbols not from 0 on."""
    found: dict[tuple[int, int], str] = {}
    for corner, tokens in groupby(zip(positions, names, strict=True), key=lambda token: tuple(token[0][:2])):
        places, symbols = zip(*((position[2], name) for position, name in tokens), strict=True)
        assert places == tuple(range(len(places)))
        assert corner not in found
        found[corner[0], corner[1]] = "".join(symbols)
    height, width = (1 + max(axis) for axis in zip(*found, strict=True))
    assert list(found) == [(i, j) for i in range(height) for j in range(width)]
    return [[found[i, j] for j in range(width)] for i in range(height)]


@pytest.mark.parametrize(
    ("options", "split"),
    in_splits([{"side_mean": 4}, {"side_mean": 2, "side_std": 0.7, "word_mean": 5, "word_std": 2, "vocabulary": 26}]),
    ids=str,
)
def test_target_is_rederived(options: dict[str, Any], split: str) -> None:
    lengths = []
    for row in rows("word-grid-rotate", split=split, **options)[1]:
        source, target = (words(row[side], row[f"{side}_positions"]) for side in ("source", "target"))
        assert target == [list(column)[::-1] for column in zip(*source, strict=True)]
        assert row["size"] == max(len(source), len(source[0]))
        lengths += [len(word) for line in source for word in line]
    mean, std = options.get("word_mean", 3), options.get("word_std", 1)
    assert abs(np.mean(lengths) - mean) < 0.01 + 4 * std / len(lengths) ** 0.5
    assert abs(np.std(lengths) - np.sqrt(std**2 + 1 / 12)) < 0.15
