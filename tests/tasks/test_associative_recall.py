"""associative-recall: values looked up in a dictionary, and draws without repetition that are uniform."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.storage import sequence_rows
from ape_cli.tasks.associative_recall import distinct
from tests.tasks.contract import check_uniform, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"pairs": 8, "queries": 3, "keys": 9, "values": 4},
    {"pairs": 1, "keys": 3_000, "values": 500},
    {"sizes": (6, 2, 11), "keys": 11, "queries": 2},
    {"sizes": (6, 2, 11), "keys": 30},
]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("associative-recall", split=split, **form)
    sizes = sorted(form.get("sizes", [task.pairs]))
    for number, row in enumerate(found):
        names, pairs = row["source"], sizes[number % len(sizes)]
        keys, values, asked = names[: 2 * pairs : 2], names[1 : 2 * pairs : 2], names[2 * pairs :]
        assert len(asked) == (task.queries or pairs)
        assert len(set(keys)) == row["size"] == pairs
        assert len(set(asked)) == len(asked)
        memory = dict(zip(keys, values, strict=True))
        assert row["target"] == [memory[key] for key in asked]
        assert {key[0] for key in keys} == {"k"}
        assert {value[0] for value in values} == {"v"}


@pytest.mark.parametrize(
    ("form", "split"),
    in_splits(
        [
            {"pairs": 4, "length": 64, "keys": 4096, "values": 4096},
            {"pairs": 3, "length": 20, "keys": 5},
            {"sizes": (5, 2), "length": 20, "keys": 30},
            {"pairs": 4, "length": 64, "keys": 4095, "values": 4096, "filler": "blank"},
            {"pairs": 4, "length": 24, "keys": 12, "queries": 2, "filler": "blank"},
        ]
    ),
    ids=str,
)
def test_tags_are_rederived(form: dict[str, Any], split: str) -> None:
    """With five keys, random symbols are often keys of the row. Then they are queries too."""
    more = 0
    for row in rows("associative-recall", split=split, **form)[1]:
        names, tags, pairs = row["source"], row["target"], row["size"]
        assert pairs == form.get("pairs") or pairs in form.get("sizes", ())
        memory = dict(zip(names[: 2 * pairs : 2], names[1 : 2 * pairs : 2], strict=True))
        assert len(names) == form["length"]
        assert len(memory) == pairs
        assert tags == ["<pad>"] * 2 * pairs + [memory.get(name, "<pad>") for name in names[2 * pairs :]]
        asked = form.get("queries", pairs)
        assert len(memory.keys() & set(names[2 * pairs :: 2])) == asked or form.get("filler") != "blank"
        assert form.get("filler") != "blank" or set(names[2 * pairs + 1 :: 2]) == {"blank"}
        assert form.get("filler") != "blank" or names[2 * pairs :].count("blank") == form["length"] - 2 * pairs - asked
        more += sum(tag != "<pad>" for tag in tags) - pairs
    assert (more > 100) == (form["keys"] < 100 and form.get("filler") != "blank")


def test_older_datasets_stay_what_they_are() -> None:
    """If this fails, datasets of queries between random symbols can no longer be regenerated."""
    task = tasks.make("associative-recall", pairs=4, keys=4096, values=4096, length=64)
    content = sequence_rows.content(task.sample(rows=range(300), split="train", seed=42))[0]
    assert content == 1389101671727467589
    assert "filler" not in task.parameters
    assert len(task.id_names) == 3 + 8192


def test_gaps_follow_the_power_law() -> None:
    """The slot of a single query has the distribution i^(a - 1) / sum. With a = 1 it is uniform."""
    for power in (0.01, 1.0):
        form = {"pairs": 1, "queries": 1, "length": 18, "keys": 4096, "values": 1, "gap_power": power}
        found = rows("associative-recall", count=4_000, **form)[1]
        slots = Counter(row["target_ids"].index(max(row["target_ids"])) // 2 for row in found)
        weights = np.arange(1, 9) ** (power - 1)
        expected = 4_000 * weights / weights.sum()
        counts = np.array([slots[i] for i in range(1, 9)])
        assert counts.sum() == 4_000
        assert ((counts - expected) ** 2 / expected).sum() < 30  # 7 degrees of freedom: p = 1e-4


@pytest.mark.parametrize("option", [{"filler": "blank"}, {"gap_power": 0.5}])
def test_gaps_need_a_length(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="needs gaps to fill"):
        tasks.make("associative-recall", **option)


@pytest.mark.parametrize(("count", "bound"), [(2, 4), (3, 3), (1, 6), (4, 5)])
def test_draws_without_repetition_are_uniform(count: int, bound: int) -> None:
    """Every ordered choice of distinct numbers occurs, with the same frequency."""
    drawn = distinct(rng.rows(3, "train", np.arange(24_000)), count, bound)
    counts, choices = Counter(map(tuple, drawn.tolist())), set(itertools.permutations(range(bound), count))
    assert set(counts) == choices
    check_uniform(counts, len(choices))


def test_values_and_queries_are_uniform() -> None:
    sources = [row["source"] for row in rows("associative-recall", pairs=4, queries=1, keys=8, values=5)[1]]
    check_uniform(Counter(value for names in sources for value in names[1:8:2]), 5)
    check_uniform(Counter(names.index(names[8]) // 2 for names in sources), 4)  # which pair is asked for
