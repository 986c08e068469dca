"""copy, reverse and repeat: targets re-derived, and lengths and symbols distributed as in the paper."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.tasks.contract import check_uniform, rows

TARGETS = {"copy": lambda w: w, "reverse": lambda w: w[::-1], "repeat": lambda w: w + w}


@pytest.mark.parametrize("name", TARGETS)
def test_target_is_rederived(name: str) -> None:
    for row in rows(name)[1]:
        assert row["target_ids"] == TARGETS[name](row["source_ids"])
        assert row["size"] == len(row["source_ids"])
        assert row["op"] is None
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
