"""associative-recall: values looked up in a dictionary, and draws without repetition that are uniform."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core import ragged, rng
from ape_cli.tasks import Source
from ape_cli.tasks.associative_recall import distinct
from tests.tasks.contract import ROWS, in_splits, rows

FORMS: list[dict[str, Any]] = [
    {},
    {"pairs": 8, "queries": 3, "keys": 9, "values": 4},
    {"pairs": 5, "keys": 5, "values": 1},
    {"pairs": 1, "keys": 3_000, "values": 500},
    {"sizes": (6, 2, 11), "keys": 11, "queries": 2},
    {"sizes": (6, 2, 11), "keys": 30},
]


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], split: str) -> None:
    task, found = rows("associative-recall", split=split, **form)
    names_of = task.id_names
    sizes = sorted(form.get("sizes", [task.pairs]))
    for number, row in enumerate(found):
        names = [names_of[i] for i in row["source_ids"]]
        pairs = sizes[number % len(sizes)]
        keys, values, asked = names[: 2 * pairs : 2], names[1 : 2 * pairs : 2], names[2 * pairs :]
        assert len(asked) == (task.queries or pairs)
        assert len(set(keys)) == row["size"] == pairs
        assert len(set(asked)) == len(asked)
        memory = dict(zip(keys, values, strict=True))
        assert [names_of[i] for i in row["target_ids"]] == [memory[key] for key in asked]
        assert {key[0] for key in keys} == {"k"}
        assert {value[0] for value in values} == {"v"}
        assert row["source_positions"] == list(range(len(names)))
        assert row["target_positions"] == list(range(len(asked)))


@pytest.mark.parametrize(
    ("form", "split"),
    in_splits(
        [
            {"pairs": 4, "length": 64, "keys": 4096, "values": 4096},
            {"pairs": 3, "length": 20, "keys": 5},
            {"sizes": (5, 2), "length": 20, "keys": 30},
        ]
    ),
    ids=str,
)
def test_tags_are_rederived(form: dict[str, Any], split: str) -> None:
    """With five keys, random symbols are often keys of the row. Then they are queries too."""
    task, found = rows("associative-recall", split=split, **form)
    names_of, more = task.id_names, 0
    for row in found:
        names, pairs = [names_of[i] for i in row["source_ids"]], row["size"]
        assert pairs == form.get("pairs") or pairs in form.get("sizes", ())
        memory = dict(zip(names[: 2 * pairs : 2], names[1 : 2 * pairs : 2], strict=True))
        assert len(names) == form["length"]
        assert len(memory) == pairs
        tags = [names_of[i] for i in row["target_ids"]]
        assert tags == ["<pad>"] * 2 * pairs + [memory.get(name, "<pad>") for name in names[2 * pairs :]]
        assert memory.keys() <= set(names[2 * pairs :: 2])
        more += sum(tag != "<pad>" for tag in tags) - pairs
    assert (more > 100) == (form["keys"] < 100)


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


def test_answers_by_hand() -> None:
    """Rows of different sizes in one batch, which use the same keys for different values."""
    task = tasks.make("associative-recall", sizes=(1, 2, 3), keys=5, values=5)
    texts = ["k4 v0 k4", "k4 v1 k0 v3 k0 k4", "k0 v2 k4 v2 k1 v4 k1 k0 k4"]
    ids = [[task.id_names.index(name) for name in text.split()] for text in texts]
    lengths = np.array([len(row) for row in ids])
    starts = ragged.starts_of(lengths)
    place = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    found = task.answer(Source(starts, place, np.concatenate(ids), np.array([1, 2, 3])))
    assert [task.id_names[i] for i in found.symbol] == ["v0", "v3", "v1", "v4", "v2", "v2"]
    assert found.starts.tolist() == [0, 1, 3, 6]
    assert found.position.tolist() == [0, 0, 1, 0, 1, 2]


def test_the_order_of_the_pairs_does_not_matter() -> None:
    task = tasks.make("associative-recall", pairs=4, keys=6, values=6)
    for row in task.sample(rows=range(100), split="train", seed=3).to_pylist():
        ids = row["source_ids"]
        turned = np.array([*ids[2:8], *ids[:2], *ids[8:]])
        assert (
            task.answer(Source(np.array([0, 12]), np.arange(12), turned, np.array([4]))).symbol.tolist()
            == row["target_ids"]
        )


@pytest.mark.parametrize(("count", "bound"), [(2, 4), (3, 3), (1, 6), (4, 5)])
def test_draws_without_repetition_are_uniform(count: int, bound: int) -> None:
    """Every ordered choice of distinct numbers occurs, with the same frequency."""
    drawn = distinct(rng.rows(3, "train", np.arange(24_000)), count, bound)
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == set(itertools.permutations(range(bound), count))
    expected = 24_000 / len(counts)
    degrees = len(counts) - 1
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < degrees + 5 * (2 * degrees) ** 0.5


def test_a_large_vocabulary_is_drawn_from_end_to_end() -> None:
    drawn = distinct(rng.rows(3, "train", np.arange(2_000)), 30, 20_000)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    assert 0 <= drawn.min() < 20
    assert 19_980 < drawn.max() < 20_000
    assert abs(drawn.mean() - 9_999.5) < 4 * 5_774 / 60_000**0.5


def test_values_and_queries_are_uniform() -> None:
    task, found = rows("associative-recall", pairs=4, queries=1, keys=8, values=5)
    values, asked = Counter(), Counter()  # type: ignore[var-annotated]
    for row in found:
        names = [task.id_names[i] for i in row["source_ids"]]
        values.update(names[1:8:2])
        asked[names[:8].index(names[8]) // 2] += 1  # which pair is asked for
    assert sorted(values) == ["v0", "v1", "v2", "v3", "v4"]
    assert sum((n - 4 * ROWS / 5) ** 2 / (4 * ROWS / 5) for n in values.values()) < 24  # 4 degrees of freedom
    assert sorted(asked) == [0, 1, 2, 3]
    assert sum((n - ROWS / 4) ** 2 / (ROWS / 4) for n in asked.values()) < 22  # 3 degrees of freedom: p < 1e-4


def test_the_means() -> None:
    task = tasks.make("associative-recall", pairs=10, queries=4)
    assert (task.mean_size, task.mean_tokens, task.mean_answer_tokens) == (10, 24, 4)
    each = tasks.make("associative-recall", sizes=(2, 8), keys=8)
    assert (each.mean_size, each.mean_tokens, each.mean_answer_tokens) == (5, 15, 5)
    assert "pairs" not in each.parameters
    assert tasks.make("associative-recall", **each.parameters) == each
