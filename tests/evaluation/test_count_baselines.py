"""Baselines that only count, compared with counts by plain Python, from the Parquet files for the simplest one."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.count_baselines import count_baselines, majority_baseline
from tests.conftest import ape, write

Row = dict[str, Any]
Pairs = Iterator[tuple[Any, int]]  # the key and the label of each token of a row


def by_hand(data: Dataset, pairs: Callable[[Row], Pairs], end: int = 0) -> dict[str, float]:
    """The scores of a table, counted with dictionaries. `end` is the number of tokens that are right in each row."""
    counts: dict[Any, Counter[int]] = defaultdict(Counter)
    for row in data.split("train").table().to_pylist():
        for key, label in pairs(row):
            counts[key][label] += 1
    usual = sum(counts.values(), Counter())
    right = total = exact = 0
    rows = data.split("test").table().to_pylist()
    for row in rows:
        found = [(counts.get(key, usual), label) for key, label in pairs(row)]
        correct = sum(max(sorted(of_key), key=of_key.__getitem__) == label for of_key, label in found)
        right, total, exact = right + correct + end, total + len(found) + end, exact + (correct == len(found))
    return {"token_accuracy": right / total, "exact_match": exact / len(rows)}


def test_tables_are_those_of_plain_python(tmp_path: Path) -> None:
    data = write(tmp_path / "data", "reverse", length_mean=4, length_std=1, vocabulary=3)
    found = count_baselines(data, "test")

    def bigrams(row: Row) -> Pairs:
        return zip([1, *row["target_ids"]], row["target_ids"], strict=False)

    def with_symbols(row: Row) -> Pairs:
        return zip(zip([1, *row["target_ids"]], row["source_ids"], strict=False), row["target_ids"], strict=False)

    assert found["previous answer"] == by_hand(data, bigrams, end=1)
    assert found["previous answer and symbol"] == by_hand(data, with_symbols, end=1)
    assert found["most frequent answer"] == by_hand(data, lambda row: ((0, i) for i in row["target_ids"]), end=1)
    rows = data.split("test").table().to_pylist()
    repeats = sum(a == b for row in rows for a, b in zip(row["target_ids"], row["target_ids"][1:], strict=False))
    tokens = sum(len(row["target_ids"]) + 1 for row in rows)
    assert found["repeated answer"]["token_accuracy"] == (repeats + len(rows)) / tokens


def test_the_most_frequent_symbol_is_an_answer(tmp_path: Path) -> None:
    """Keys are never answers. Of values that are equally frequent, the one with the lowest id is taken."""
    data = write(tmp_path / "data", "associative-recall", pairs=4, queries=1, keys=6, values=6)
    right = 0
    rows = data.split("test").table().to_pylist()
    for row in rows:
        values = Counter(row["source_ids"][1:8:2])
        right += max(sorted(values), key=values.__getitem__) == row["target_ids"][0]
    found = count_baselines(data, "test")["most frequent symbol of the source"]
    assert found == {"token_accuracy": (right + len(rows)) / (2 * len(rows)), "exact_match": right / len(rows)}


def test_written_products_are_a_table_and_tags_are_not(tmp_path: Path) -> None:
    """A table of (previous product, symbol) has all products that are written one by one."""
    form = {"group": "symmetric-3", "length_mean": 8, "length_std": 1}
    written = write(tmp_path / "prefixes", "group-word", answers="prefixes", **form)
    assert count_baselines(written, "test")["previous answer and symbol"]["exact_match"] == 1.0
    tags = count_baselines(write(tmp_path / "tags", "group-word", **form), "test")
    assert set(tags) == {"most frequent answer", "symbol", "symbols before and after"}
    assert max(scores["exact_match"] for scores in tags.values()) < 0.1


@pytest.mark.parametrize("order", ["breadth", "depth"])
def test_hidden_labels_by_their_neighbours_and_families(order: str, here: Path) -> None:
    """Labels that depend on those of the parent and the children."""
    lines = [f"(f{a} (g{a} (x{a}) (y{a})) (h{a} (z{a}) (n{b})))" for a in range(6) for b in range(20)]
    random.Random(1).shuffle(lines)
    (here / "trees.txt").write_text("\n".join(lines))
    words = ["--source", "trees.txt", "--format", "s-expr", "--task", "mask", "--mask-rate", "0.25", "--branching", "2"]
    ape("gen", "trees", *words, "--order", order, "--out", "data")
    data = open_dataset("data")
    found = count_baselines(data, "test")

    def hidden(row: Row, key: Callable[[int], Any]) -> Pairs:
        return ((key(at), tag) for at, tag in enumerate(row["target_ids"]) if tag)

    def neighbours(row: Row) -> Pairs:
        wide = [0, *row["source_ids"], 0]
        return hidden(row, lambda at: (wide[at], wide[at + 2]))

    def family(row: Row) -> Pairs:
        symbol = dict(zip(row["source_positions"], row["source_ids"], strict=True))
        place = row["source_positions"]
        relatives = [(p // 2, 2 * p, 2 * p + 1) for p in place]
        return hidden(row, lambda at: tuple(symbol.get(p, 0) for p in relatives[at]))

    assert found["symbols before and after"] == by_hand(data, neighbours)
    assert found["parent and children"] == by_hand(data, family)
    assert found["most frequent answer"] == by_hand(data, lambda row: hidden(row, lambda at: 0))
    assert found["parent and children"]["token_accuracy"] > found["most frequent answer"]["token_accuracy"]


@pytest.mark.parametrize("task", ["copy --vocabulary 3", "tree-copy"])
def test_the_majority_baseline_is_the_share_of_the_most_frequent_symbol(task: str, here: Path) -> None:
    ape("gen", *task.split(), "--n", "40", "--n-validation", "30", "--n-test", "300", "--out", "made")
    rows = pl.read_parquet(here / "made" / "data" / "test-*.parquet")["target_ids"].to_list()
    end = [] if task == "tree-copy" else [2]  # only words end with EOS
    counts = Counter(symbol for row in rows for symbol in [*row, *end])
    assert majority_baseline(open_dataset("made").split("test")) == max(counts.values()) / counts.total()


def test_the_majority_baseline_of_images_is_a_class(here: Path) -> None:
    pytest.importorskip("sklearn")
    ape("gen", "images", "--source", "digits", "--out", "made")
    labels = pl.read_parquet(here / "made" / "data" / "test-*.parquet")["label"].to_list()
    assert majority_baseline(open_dataset("made").split("test")) == max(Counter(labels).values()) / len(labels)
