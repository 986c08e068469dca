"""ring-shift: the target re-derived with a deque, offsets that are uniform, and the place of the origin."""

from __future__ import annotations

from collections import Counter, deque

import pytest

from ape_cli.core.vocabulary import EOS
from tests.tasks.contract import check_uniform, rows


@pytest.mark.parametrize(("ring", "vocabulary"), [(20, 20), (7, 30), (2, 1)])
def test_target_is_rederived(ring: int, vocabulary: int) -> None:
    task, found = rows("ring-shift", ring=ring, vocabulary=vocabulary)
    assert (task.structure, task.mean_size, task.mean_tokens) == (f"cyclic({ring})", ring, ring + 1)
    for row in found:
        offset, *symbols = row["source_ids"]
        places = deque(symbols)
        places.rotate(int(row["source"][0].removeprefix("+")))
        assert row["target_ids"] == list(places)
        assert row["target_positions"] == list(range(ring))
        assert row["source_positions"] == [0, *range(ring)]
        assert row["size"] == ring
        assert all(3 <= symbol < 3 + vocabulary for symbol in symbols)
        assert offset >= 3 + vocabulary
        assert EOS not in row["target_ids"]


def test_offsets_are_uniform() -> None:
    check_uniform(Counter(row["source_ids"][0] for row in rows("ring-shift", ring=8)[1]), 8)
