"""`sizes`: exactly the given number of rows of each size, re-derived. The rows of a size are those of a fixed size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation, manifest
from ape_cli.data.loader import open_dataset
from ape_cli.tasks._sized import Sized


@pytest.mark.parametrize("name", [name for name in tasks.names() if issubclass(tasks.load(name), Sized)])
def test_a_row_is_that_of_a_task_of_this_one_size(name: str) -> None:
    """The rows of a size do not depend on the other sizes, nor on where a block of rows begins or ends."""
    own = {"grid-path": (3, 5, 7), "quadtree-expand": (2, 3, 4)}
    own |= {"in-context-recall": (4, 8, 14), "selective-copying": (34, 35, 50)}
    few = ("binary-addition", "binary-multiplication", "compute-sqrt", "missing-duplicate", "solve-equation")
    own |= dict.fromkeys(few, (9, 12, 15))  # few short sources belong to a split, so they are drawn many times
    sizes = own.get(name, (2, 3, 5))
    mixed, extent = tasks.make(name, sizes=sizes), tasks.load(name).extent
    one_size = [extent] if extent in mixed.options else [f"{extent}_mean", f"{extent}_std"]
    alone = [tasks.make(name, **dict(zip(one_size, (size, 0), strict=False))) for size in sizes]
    for split in SPLITS:
        whole = mixed.sample(rows=range(300), split=split, seed=5)
        for number, task in enumerate(alone):
            one = task.sample(rows=range(number, 300, 3), split=split, seed=5)
            assert one.to_pylist() == whole.to_pylist()[number::3]
            assert set(one["size"].to_pylist()) == {sizes[number]}
        assert mixed.sample(rows=range(100, 161), split=split, seed=5).equals(whole.slice(100, 61))
    for mean in ("mean_size", "mean_tokens", "mean_target_tokens"):
        assert getattr(mixed, mean) == pytest.approx(sum(getattr(task, mean) for task in alone) / 3)
    assert mixed.mean_size == pytest.approx(sum(sizes) / 3)
    assert not set(one_size) & set(mixed.parameters)
    assert tasks.make(name, **mixed.parameters) == mixed


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
    assert sum(map(len, held.values())) == len(set().union(*held.values()))
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


def test_a_dataset_is_a_prefix_of_a_larger_one_however_it_is_made(tmp_path: Path) -> None:
    task = tasks.make("tree-ops", "depth", sizes=(3, 5), branching=3)

    def made(name: str, n: int, shard_rows: int) -> tuple[list[Any], str]:
        plan = generation.plan(task, seed=7, rows={"train": n, "validation": 9, "test": None}, shard_rows=shard_rows)
        assert plan.rows == {"train": 2 * n, "validation": 18, "test": 1_000}  # the default is a total
        manifest = generation.generate(task, plan, tmp_path / name).manifest
        return open_dataset(tmp_path / name).split("train").table().to_pylist(), manifest.fingerprint

    large, fingerprint = made("large", 50, 1_000)
    assert made("cut", 50, 7) == (large, fingerprint)
    assert made("small", 20, 1_000)[0] == large[:40]
    assert Counter(row["size"] for row in large) == {3: 50, 5: 50}


def test_the_manifest_has_the_sizes_in_place_of_the_normal(tmp_path: Path) -> None:
    task = tasks.make("tree-copy", "depth", sizes=(5, 2), vocabulary=4)
    assert task.parameters == {"sizes": [2, 5], "vocabulary": 4}
    assert task.title == "tree-copy-depth-sizes-2_5"
    plan = generation.plan(task, seed=7, rows={"train": 3, "validation": 0, "test": 1}, shard_rows=10)
    generation.generate(task, plan, tmp_path)
    read = manifest.read_manifest(tmp_path)
    assert read.plan == plan
    assert read.plan.rows == {"train": 6, "validation": 0, "test": 2}
    assert generation.generate(task, plan, tmp_path).written == 0
    assert "--n 3 --n-validation 0 --n-test 1" in (tmp_path / "README.md").read_text()


def test_long_lists_have_short_names() -> None:
    every = tasks.make("copy", sizes=tuple(range(30, 130, 2)))
    other = tasks.make("copy", sizes=tuple(range(30, 129, 3)))
    assert every.title.startswith("copy-sizes-30-to-128-")
    assert len(every.title) < 100
    assert other.title != every.title


def test_ranges_are_named_by_their_ends() -> None:
    titles = {"1-10": "copy-sizes-1-10", "1,10": "copy-sizes-1_10", "1-3,8": "copy-sizes-1-3_8"}
    assert {sizes: tasks.make("copy", sizes=sizes).title for sizes in titles} == titles
    assert tasks.make("copy", sizes="1-3,8").former_title == "copy-sizes-1-2-3-8"


def test_sizes_as_text() -> None:
    """Ranges include both ends, and the manifest has the numbers, however they were written."""
    task = tasks.make("copy", sizes="1-3,8")
    assert task.parameters == tasks.make("copy", sizes=[8, 3, 2, 1]).parameters
    assert task.parameters["sizes"] == [1, 2, 3, 8]
    with pytest.raises(UsageError, match="bad `sizes`"):
        tasks.make("copy", sizes="3-1")
