"""Windows of rows: batches do not depend on how the rows of a split are divided into files and row groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.data import generation, loader
from ape_cli.data.batches import Share
from ape_cli.data.loader import Dataset, ImageSplit, Split, open_dataset
from ape_cli.storage.sources import ImageSource, LabelledImages
from ape_cli.tasks import images

ROWS = 53
SHARDS = (1, 7, 16, 20, ROWS)  # rows of a shard
BLOCK = 16
EARLIER = [
    [48, 51, 52, 49, 50],
    [36, 41, 47, 39, 43, 42, 38, 32, 45, 35, 37, 40],
    [46, 44, 34, 33],
    [22, 31, 18, 20, 26, 29, 24, 28, 17, 30, 23, 19],
    [16, 21, 25, 27],
    [3, 13, 10, 2, 15, 7, 1, 4, 6, 0, 8, 12],
    [9, 11, 5, 14],
]


def written(folder: Path, task: tasks.BaseTask, shard_rows: int) -> Dataset:
    rows = {"train": ROWS, "validation": 1, "test": 1}
    generation.generate(task, generation.plan(task, seed=7, rows=rows, shard_rows=shard_rows), folder)
    return open_dataset(folder)


def epochs(split: Split | ImageSplit, share: Share = (0, 1), skip: int = 0) -> list[list[dict[str, Any]]]:
    """The batches of several epochs, shuffled and in order."""
    found = []
    for seed, epoch in ((None, 0), (3, 0), (3, 1), (4, 0)):
        batches = list(split.batches(6, seed, epoch=epoch, share=share, skip=skip))
        assert len(batches) == split.steps(6, seed, epoch) - skip
        found.append([{name: _listed(value) for name, value in vars(batch).items()} for batch in batches])
    return found


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "ROW_GROUP", BLOCK)


@pytest.mark.usefixtures("blocks")
def test_batches_do_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on row groups, which have five rows in the last dataset. Shares of a batch are the same too."""
    task = tasks.make("tree-ops", depth_mean=3, depth_std=1)
    data = [written(tmp_path / str(rows), task, rows) for rows in SHARDS]
    monkeypatch.setattr(generation, "_GROUP_TOKENS", 5 * (task.mean_tokens + task.mean_answer_tokens))
    data.append(written(tmp_path / "small groups", task, ROWS))
    splits = [each.split("train") for each in data]
    assert len({each.fingerprint for each in data}) == 1
    whole = epochs(splits[0])
    assert all(sorted(row for batch in epoch for row in batch["row"]) == list(range(ROWS)) for epoch in whole)
    assert len({str(epoch) for epoch in whole}) == len(whole)
    for split in splits[1:]:
        assert epochs(split) == whole
        assert epochs(split, skip=4) == [epoch[4:] for epoch in whole]
        assert split.table() == splits[0].table()
    for share in ((0, 3), (2, 3)):
        first, *others = (epochs(split, share) for split in splits)
        assert all(other == first for other in others)


def test_the_order_of_an_epoch_is_that_of_earlier_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of each batch, written down when an epoch followed the row groups: of full groups but for the last one."""
    monkeypatch.setattr(loader, "ROW_GROUP", BLOCK)
    split = written(tmp_path, tasks.make("copy", length_mean=6, length_std=2), BLOCK).split("train")
    assert [batch.row.tolist() for batch in split.batches(12, 3)] == EARLIER


@pytest.mark.usefixtures("blocks")
def test_batches_of_images_do_not_depend_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their windows have up to 37 rows, and so one or two blocks of 16."""
    rng = np.random.default_rng(5)
    whole = LabelledImages(
        rng.integers(256, size=(ROWS + 30, 2, 3, 1)).astype(np.uint8), rng.integers(3, size=ROWS + 30)
    )
    found = ImageSource("noise", ["a", "b", "c"], {"train": whole})
    monkeypatch.setattr(images, "open_source", lambda where, label: found)
    monkeypatch.setattr(loader, "ROW_GROUP", BLOCK)
    monkeypatch.setattr(loader, "_IMAGE_WINDOW", 37 * 6)
    task = tasks.make("images", source="noise")
    first, *others = (epochs(written(tmp_path / str(rows), task, rows).split("train")) for rows in SHARDS)
    assert all(other == first for other in others)
    assert sorted(row for batch in first[1] for row in batch["row"]) == list(range(ROWS))


@pytest.mark.usefixtures("blocks")
def test_a_row_group_is_read_once_for_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of 20, 20 and 13 rows: those that reach into two blocks are read for both of them."""
    split = written(tmp_path, tasks.make("copy", length_mean=6, length_std=2), 20).split("train")
    read: list[str] = []
    real = loader.read_group
    monkeypatch.setattr(loader, "read_group", lambda *given: read.append(str(given[2])) or real(*given))
    list(split.batches(6))
    assert read == [f"data/train-0000{shard}-of-00003.parquet" for shard in (0, 0, 1, 1, 2, 2)]
