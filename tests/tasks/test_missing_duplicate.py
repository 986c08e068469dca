"""missing-duplicate: the string is found by trying both bits, and gaps are uniform."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ape_cli import tasks
from tests.tasks.contract import check_uniform, count_of, in_splits, names_of, rows, source_of

FORMS: list[dict[str, Any]] = [{}, {"length_mean": 8, "length_std": 2}, {"sizes": "1-20,37,40"}]


def filled(source: list[str], bit: str) -> list[str]:
    return [bit if symbol == "2" else symbol for symbol in source]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    """Of the two bits, only the target makes both copies equal."""
    for row in rows("missing-duplicate", split=split, count=count_of(form, FORMS), **form)[1]:
        source, half = row["source"], len(row["source"]) // 2
        assert len(source) == row["size"]
        if half == 0:
            assert (source, row["target"]) == (["1"], ["1"])
            continue
        assert source[2 * half :] == ["3"] * (len(source) % 2)
        assert (source.count("2"), source.count("3")) == (1, len(source) % 2)
        words = {bit: filled(source, bit) for bit in "01"}
        assert row["target"] == [bit for bit, word in words.items() if word[:half] == word[half : 2 * half]]
        assert row["target"] == [bit for bit in "01" if source.count(bit) % 2]


def test_samples_of_the_source() -> None:
    task = tasks.make("missing-duplicate")
    samples = {"01100210": "1", "1011213": "0", "1": "1"}
    assert names_of(task, task.target(source_of(task, [" ".join(text) for text in samples]))) == list(samples.values())


def test_gaps_and_bits_are_uniform() -> None:
    found = rows("missing-duplicate", count=4_000, sizes=31)[1]
    check_uniform(Counter(row["source"].index("2") for row in found), 30)
    words = Counter("".join(filled(row["source"], row["target"][0])[:3]) for row in found)
    check_uniform(words, 8)
