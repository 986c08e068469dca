"""memorization: one map of keys to values in all rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ape_cli import tasks
from tests.tasks.contract import check_uniform, count_of, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"length": 9, "keys": 12, "values": 12, "map_seed": 3},
    {"sizes": (10, 2, 31), "keys": 500, "values": 700},
]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("memorization", split=split, count=count_of(form, FORMS), **form)
    sizes = sorted(form.get("sizes", [task.length]))
    values: dict[str, set[str]] = {}
    for number, row in enumerate(found):
        assert row["size"] == sizes[number % len(sizes)]
        assert len(row["source"]) == row["size"] // 2 * 2
        assert set(row["source"][1::2]) == {"insert"}
        assert set(row["target"][::2]) == {"<pad>"}
        for key, value in zip(row["source"][::2], row["target"][1::2], strict=True):
            values.setdefault(key, set()).add(value)
    assert {key[0] for key in values} == {"k"}
    assert {len(each) for each in values.values()} == {1}
    assert len(set.union(*values.values())) == len(values)


def test_the_map_depends_on_its_seed_alone() -> None:
    """Each key has its own value."""
    first, same, other = (tasks.make("memorization", **form) for form in ({}, {"length": 8}, {"map_seed": 1}))
    assert first.value_of.tolist() == same.value_of.tolist() != other.value_of.tolist()
    assert len(set(first.value_of.tolist())) == 127
    assert first.value_of[:5].tolist() == [112, 114, 19, 39, 55]
    table = first.sample(rows=range(500), split="train", seed=7).to_pylist()
    check_uniform(Counter(i for row in table for i in row["source_ids"][::2]), 127)
