"""copy, reverse, repeat, odds-first and bucket-sort: targets re-derived, published lengths and symbols."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.tasks.contract import ROWS, check_uniform, rows

TARGETS = {
    "copy": lambda w: w,
    "reverse": lambda w: w[::-1],
    "repeat": lambda w: w + w,
    "odds-first": lambda w: w[::2] + w[1::2],
    "bucket-sort": sorted,
}


@pytest.mark.parametrize("name", TARGETS)
def test_target_is_rederived(name: str) -> None:
    for row in rows(name)[1]:
        assert row["target_ids"] == TARGETS[name](row["source_ids"])
        assert row["size"] == len(row["source_ids"])
        assert row["op"] is None
    for row in rows(name, count=ROWS // 5, sizes="1-20,37")[1]:
        assert row["target_ids"] == TARGETS[name](row["source_ids"])
    for row in rows("repeat", count=50, repeats=5, length_mean=4, length_std=1)[1]:
        assert row["target_ids"] == row["source_ids"] * 5


def test_lengths_are_rounded_not_truncated() -> None:
    """A truncated normal distribution has its mean half a step lower (a known mistake: mean 99.5 instead of 100)."""
    sizes = np.array([r["size"] for r in rows("copy", count=20_000)[1]])
    assert abs(sizes.mean() - 100.0) < 4 * 10 / 20_000**0.5  # four standard errors
    assert abs(sizes.std() - 10.0) < 0.25


@pytest.mark.parametrize("name", ["copy", "grid-copy"])
def test_symbols_are_uniform_over_the_vocabulary(name: str) -> None:
    check_uniform(Counter(symbol for row in rows(name)[1] for symbol in row["source_ids"]), 20)


@pytest.mark.parametrize(("length", "share"), [(20, 80.2), (40, 90.0), (500, 99.2)])
def test_repeating_the_previous_symbol_is_as_good_as_described(length: int, share: float) -> None:
    """bucket-sort. The first guess is the smallest symbol."""
    found = rows("bucket-sort", count=2_000 if length == 20 else 200, sizes=length)[1]
    assert round(100 - 400 * (1 - 0.8**length) / length, 1) == share
    right = [np.equal([3, *row["target_ids"][:-1]], row["target_ids"]).mean() for row in found]
    assert abs(100 * np.mean(right) - share) < 0.5
