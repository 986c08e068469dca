"""`sizes`: exactly the given number of rows of each size, re-derived. The rows of a size are those of a fixed size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.core.executors.local import Local
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, manifest
from ape_cli.data.loader import open_dataset
from tests import recursive
from tests.tasks.contract import ROWS, check_trees, rows
from tests.tasks.test_c3 import reduce_once
from tests.tasks.test_grids import clockwise, grid
from tests.tasks.test_tree_ops import expected

ANSWERS: dict[str, Any] = {
    "tree-copy": lambda tree: tree,
    "tree-rotate": recursive.mirror,
    "c3": reduce_once,
    "tree-ops": expected,
}
FORMS: list[dict[str, Any]] = [{}, {"branching": 3}, {"branching": 3, "binarise": True}]
MEAN: dict[str, Any] = {
    "reverse": "length",
    "tree-copy": "depth",
    "tree-ops": "depth",
    "tree-query": "depth",
    "tree-convert": "depth",
    "grid-copy": "side",
}


def test_words_have_the_sizes_in_turn() -> None:
    for number, row in enumerate(rows("reverse", count=3_000, sizes=(30, 7, 12))[1]):
        assert len(row["source_ids"]) == row["size"] == (7, 12, 30)[number % 3]
        assert row["target_ids"] == row["source_ids"][::-1]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", ANSWERS)
def test_trees_have_the_depths_in_turn(name: str, form: dict[str, Any]) -> None:
    """The depth is that of the whole source; for a binarised tree, the depth before it is binarised."""
    order = "depth" if name in ("c3", "tree-copy") else "breadth"
    found = check_trees(name, order, ANSWERS[name], sizes=(2, 4), **form)
    assert len(found) == ROWS
    assert [recursive.depth(source) for source, _ in found] == [2, 4] * (ROWS // 2)


@pytest.mark.slow
def test_grids_are_squares() -> None:
    for number, row in enumerate(rows("grid-rotate", sizes=(2, 5))[1]):
        source = grid(row["source_ids"], row["source_positions"])
        assert len(source) == len(source[0]) == row["size"] == (2, 5)[number % 2]
        assert grid(row["target_ids"], row["target_positions"]) == clockwise(source)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEAN)
@pytest.mark.parametrize("split", SPLITS)
def test_a_row_is_that_of_a_task_of_this_one_size(name: str, split: str) -> None:
    """The rows of a size do not depend on the other sizes, nor on where a block of rows begins or ends."""
    mixed = tasks.make(name, sizes=(3, 4, 6))
    whole = mixed.sample(rows=range(300), split=split, seed=5)
    for number, size in enumerate((3, 4, 6)):
        one = tasks.make(name, **{f"{MEAN[name]}_mean": size, f"{MEAN[name]}_std": 0})
        alone = one.sample(rows=range(number, 300, 3), split=split, seed=5)
        assert alone.to_pylist() == whole.to_pylist()[number::3]
    assert mixed.sample(rows=range(100, 161), split=split, seed=5).equals(whole.slice(100, 61))


def test_a_draw_that_belongs_to_another_split_keeps_its_size() -> None:
    """Words of length 6 to 8 over two symbols, 448 in all: most draws for validation and test are repeated."""
    task = tasks.make("copy", sizes=(6, 7, 8), vocabulary=2)
    held: dict[str, set[tuple[int, ...]]] = {}
    for split in SPLITS:
        table, shared = task.sample_counted(rows=range(3_000), split=split, seed=1)
        words = table["source_ids"].to_pylist()
        assert shared == 0
        assert [len(word) for word in words] == [6, 7, 8] * 1_000
        held[split] = {tuple(word) for word in words}
    assert not held["train"] & held["validation"]
    assert not held["train"] & held["test"]
    assert not held["validation"] & held["test"]
    assert set(map(len, held["test"])) == {6, 7, 8}


def test_a_size_with_too_few_sources_keeps_its_rows_and_is_counted() -> None:
    """Trees of depth 0 with one leaf symbol are one source, which belongs to one split."""
    task = tasks.make("tree-copy", sizes=(0, 6), vocabulary=2)
    counts = []
    for split in SPLITS:
        table, shared = task.sample_counted(rows=range(60), split=split, seed=1)
        assert table["size"].to_pylist() == [0, 6] * 30
        counts.append(shared)
    assert sorted(counts) == [0, 30, 30]


@pytest.mark.slow
def test_a_dataset_is_a_prefix_of_a_larger_one_however_it_is_made(tmp_path: Path) -> None:
    task = tasks.make("tree-ops", "depth", sizes=(3, 5), branching=3)

    def made(name: str, n: int, shard_rows: int, workers: int | None = None) -> tuple[list[Any], str]:
        plan = generation.plan(task, seed=7, rows={"train": n, "validation": 9, "test": None}, shard_rows=shard_rows)
        assert plan.rows == {"train": 2 * n, "validation": 18, "test": 2_000}
        engine = Local(workers) if workers else None
        manifest = generation.generate(task, plan, tmp_path / name, engine=engine).manifest
        return open_dataset(tmp_path / name).split("train").table().to_pylist(), manifest.fingerprint

    large, fingerprint = made("large", 50, 1_000)
    assert made("cut", 50, 7, 2) == (large, fingerprint)
    assert made("small", 20, 1_000)[0] == large[:40]
    assert Counter(row["size"] for row in large) == {3: 50, 5: 50}


def test_the_manifest_has_the_sizes_in_place_of_the_normal(tmp_path: Path) -> None:
    task = tasks.make("tree-copy", "depth", sizes=(5, 2), vocabulary=4)
    assert task.parameters == {"sizes": [2, 5], "vocabulary": 4}
    assert task.title == "tree-copy-depth-sizes-2-5"
    assert tasks.make("tree-copy", "depth", **task.parameters) == task
    plan = generation.plan(task, seed=7, rows={"train": 3, "validation": 0, "test": 1}, shard_rows=10)
    generation.generate(task, plan, tmp_path)
    read = manifest.read_manifest(tmp_path)
    assert read.plan == plan
    assert read.plan.rows == {"train": 6, "validation": 0, "test": 2}
    assert generation.generate(task, plan, tmp_path).written == 0
    card = (tmp_path / "README.md").read_text()
    assert "ape gen tree-copy --order depth --n 3 --n-validation 0 --n-test 1" in card
    assert "--sizes 2,5 --vocabulary 4" in card
    assert "sizes" not in tasks.make("tree-copy").parameters


def test_the_means_are_those_over_the_sizes() -> None:
    words = tasks.make("repeat", sizes=(30, 60), repeats=3)
    assert (words.mean_size, words.mean_tokens, words.mean_answer_tokens) == (45, 45, 135)
    squares = tasks.make("grid-copy", sizes=(2, 5))
    assert (squares.mean_size, squares.mean_tokens) == (3.5, (4 + 25) / 2)
    # a binary tree of depth 1 has 3 nodes; one of depth 2 has five or seven, as its other child has depth 0 or 1
    trees = tasks.make("tree-rotate", sizes=(1, 2))
    assert (trees.mean_size, trees.mean_tokens) == (1.5, (3 + 6) / 2)


def test_long_lists_have_short_names() -> None:
    every = tasks.make("copy", sizes=tuple(range(30, 130)))
    other = tasks.make("copy", sizes=(*range(30, 40), *range(41, 130)))
    assert every.title.startswith("copy-sizes-30-to-129-")
    assert len(every.title) < 100
    assert other.title != every.title


def test_mistakes_are_explained() -> None:
    cases = [
        ("copy", {"sizes": (3, 3)}, r"given twice[\s\S]*3"),
        ("copy", {"sizes": (0,)}, r"size 0: bad length[\s\S]*1 to 60000"),
        ("copy", {"sizes": (10, 70_000)}, r"size 70000: bad length[\s\S]*1 to 60000"),
        ("copy", {"sizes": "30"}, r"bad sizes[\s\S]*whole numbers"),
        ("copy", {"sizes": (3, 4.0)}, r"bad sizes[\s\S]*whole numbers"),
        ("copy", {"sizes": (True,)}, r"bad sizes[\s\S]*whole numbers"),
        ("copy", {"sizes": range(1, 1_100)}, "bad sizes"),
        ("copy", {"sizes": list(range(1, 1_100))}, r"too many sizes[\s\S]*1000"),
        ("copy", {"sizes": (3,), "length_mean": 100.0}, r"replaces the normal[\s\S]*--length-mean"),
        ("c3", {"sizes": (3,), "depth_mean": 3, "depth_std": 0}, r"replaces[\s\S]*--depth-mean and --depth-std"),
        ("grid-copy", {"sizes": (3,), "side_std": 0}, r"replaces the normal[\s\S]*--side-std"),
        ("tree-copy", {"sizes": (63,)}, r"size 63: bad depth[\s\S]*0 to 62"),
        ("tree-ops", {"sizes": (0,)}, r"size 0: bad depth[\s\S]*1 to 62"),
        ("tree-copy", {"sizes": (2, 6), "branching": 30}, "size 6: the trees would be too large"),
        ("tree-ops", {"sizes": (2, 12), "vocabulary": 16}, "size 12: vocabulary is too small"),
        ("repeat", {"sizes": (10, 60_000), "repeats": 100}, "size 60000: bad repeats"),
        ("ring-shift", {"sizes": (5,)}, "ring-shift has no sizes to choose from"),
    ]
    for name, options, message in cases:
        with pytest.raises(UsageError, match=message):
            tasks.make(name, **options)
    # limits of the normal distribution do not matter here
    assert tasks.make("tree-ops", sizes=(2,), vocabulary=16).sample(rows=range(9), split="test", seed=1).num_rows == 9
