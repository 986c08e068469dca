"""Generation: files are written atomically, do not depend on workers, and are not lost in an interruption."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli import tasks
from ape_cli.core.errors import ApeError, BusyError, DataError, UsageError
from ape_cli.core.executors.local import Local
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import generation
from ape_cli.data.generation import generate
from ape_cli.data.manifest import DatasetPlan, read_manifest
from ape_cli.storage import files, parquet, sequence_rows


def plan(task: Any, shard_rows: int = 100, **changes: Any) -> DatasetPlan:
    rows = {"train": 350, "validation": 40, "test": 30} | changes
    return generation.plan(task, seed=7, rows=rows, shard_rows=shard_rows)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("workers", [1, 2])
def test_fingerprint_knows_neither_shards_nor_workers(tmp_path: Path, task: Any, workers: int) -> None:
    """Datasets with different shard sizes have equal rows. The number of workers changes no byte of a shard."""
    whole = generate(task, plan(task, 1000), tmp_path / "whole")
    cut = generate(task, plan(task, 64), tmp_path / "cut", engine=None if workers == 1 else Local(workers))
    assert whole.manifest.fingerprint == cut.manifest.fingerprint
    for split in SPLITS:
        one, other = (pl.read_parquet(tmp_path / d / "data" / f"{split}-*.parquet") for d in ("whole", "cut"))
        assert one.equals(other)
    again = generate(task, plan(task, 64), tmp_path / "again")
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "cut")
    assert again.manifest == cut.manifest


def test_running_again_makes_what_is_missing_and_changes_nothing(tmp_path: Path, task: Any) -> None:
    generate(task, plan(task), tmp_path)
    before = snapshot(tmp_path)
    assert generate(task, plan(task), tmp_path).written == 0
    assert snapshot(tmp_path) == before
    (tmp_path / "data" / "train-00002-of-00004.parquet").unlink()
    assert generate(task, plan(task), tmp_path).written == 100
    assert snapshot(tmp_path) == before


def test_an_altered_shard_is_named_and_kept(tmp_path: Path, task: Any) -> None:
    generate(task, plan(task), tmp_path)
    path = tmp_path / "data" / "train-00001-of-00004.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"train-00001-of-00004[\s\S]*--overwrite`"):
        generate(task, plan(task), tmp_path)
    assert path.read_bytes() == damaged
    generate(task, plan(task), tmp_path, overwrite=True)
    assert path.read_bytes() != damaged


def test_another_command_is_refused_without_overwrite(tmp_path: Path, task: Any) -> None:
    generate(task, plan(task), tmp_path)
    before = snapshot(tmp_path)
    other = tasks.make("tree-ops", "depth", depth_mean=3, depth_std=1)
    with pytest.raises(DataError, match="order 'breadth' there, 'depth' now"):
        generate(other, plan(other), tmp_path)
    with files.locked(tmp_path / ".lock", BusyError("busy")), pytest.raises(BusyError, match="another process"):
        generate(task, plan(task), tmp_path)
    assert snapshot(tmp_path) == before
    generate(other, plan(other), tmp_path, overwrite=True)
    assert read_manifest(tmp_path).plan.order == "depth"


def test_an_interruption_is_gone_on_from(tmp_path: Path, task: Any) -> None:
    reference = generate(task, plan(task), tmp_path / "reference")
    ticks = iter(range(3))
    broken = tmp_path / "broken"
    with pytest.raises(StopIteration):
        generate(task, plan(task), broken, tick=lambda rows: next(ticks))
    assert not (broken / "manifest.json").exists()
    assert not [p for p in snapshot(broken) if p.endswith(".tmp")]
    with pytest.raises(DataError, match="not complete"):
        read_manifest(broken)
    with pytest.raises(DataError, match="another dataset"):  # another command must not finish it
        generate(task, plan(task, train=10), broken)
    kept = (broken / "data" / "train-00000-of-00004.parquet").stat().st_mtime_ns
    outcome = generate(task, plan(task), broken)
    assert outcome.written == 420 - 300
    assert (broken / "data" / "train-00000-of-00004.parquet").stat().st_mtime_ns == kept
    assert outcome.manifest == reference.manifest
    assert snapshot(broken) == snapshot(tmp_path / "reference")


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ApeError, match=r"cannot write[\s\S]*No space left"):
        generate(task, plan(task), tmp_path / "d")
    assert not list((tmp_path / "d").rglob("*.parquet"))
    assert not list((tmp_path / "d").rglob("*.tmp"))
    monkeypatch.setattr(os, "fsync", real)
    assert generate(task, plan(task), tmp_path / "d").written == 420


def test_overwrite_removes_only_its_own(tmp_path: Path, task: Any) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="contains no dataset"):
        generate(task, plan(task), tmp_path, overwrite=True)
    assert set(snapshot(tmp_path)) == {"thesis.txt"}
    (tmp_path / "thesis.txt").unlink()
    generate(task, plan(task), tmp_path)
    for name in ("data/mine.parquet", "notes.md"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "data" / ".train-00000-of-00009.parquet.tmp").write_text("left by a kill")
    other = tasks.make("tree-ops", "depth", depth_mean=3, depth_std=1)
    generate(other, plan(other, 1000), tmp_path, overwrite=True)
    assert {"data/mine.parquet", "notes.md"} <= set(snapshot(tmp_path))
    ours = [f"{split}-00000-of-00001.parquet" for split in ("test", "train", "validation")]
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["mine.parquet", *ours]


def test_no_state_is_a_dead_end(tmp_path: Path, task: Any) -> None:
    """A kill may leave an empty folder, temporary files, or all shards without a manifest."""
    (tmp_path / "a" / "data").mkdir(parents=True)
    (tmp_path / "b" / "data").mkdir(parents=True)
    (tmp_path / "b" / "data" / ".train-00000-of-00004.parquet.0123456789abcdef.tmp").write_text("PAR1")
    for name in ("a", "b"):
        assert generate(task, plan(task), tmp_path / name).written == 420
    generate(task, plan(task), tmp_path / "c")
    before = snapshot(tmp_path / "c")
    (tmp_path / "c" / "manifest.json").unlink()
    assert generate(task, plan(task), tmp_path / "c").written == 0
    assert snapshot(tmp_path / "c") == before == snapshot(tmp_path / "b")


def test_only_shards_of_the_same_plan_are_kept(tmp_path: Path, task: Any) -> None:
    """After an interruption, a shard whose rows are others is generated again. Foreign shards are refused."""
    reference = generate(task, plan(task), tmp_path / "reference").manifest
    broken = tmp_path / "broken"
    with pytest.raises(ZeroDivisionError):
        generate(task, plan(task), broken, tick=lambda rows: 1 // 0 if rows == 50 else None)
    first, second = (broken / "data" / f"train-0000{i}-of-00004.parquet" for i in (0, 1))
    with pq.ParquetFile(second) as file:
        note = file.metadata.metadata[b"ape"]
    with parquet.writer(second) as writer:
        writer.write_table(task.sample(rows=range(1, 101), split="train", seed=7))
        writer.add_key_value_metadata({b"ape": note})
    outcome = generate(task, plan(task), broken)
    assert outcome.written == 420 - 200
    assert outcome.manifest == reference
    assert snapshot(broken) == snapshot(tmp_path / "reference")
    (broken / "manifest.json").unlink()
    for content in (sequence_rows.SCHEMA.empty_table(), pa.table({"a": [1]})):  # as another program writes them
        pq.write_table(content, first)
        before = snapshot(broken)
        with pytest.raises(DataError, match="holds another dataset"):
            generate(task, plan(task), broken)
        assert snapshot(broken) == before
    assert generate(task, plan(task), broken, overwrite=True).manifest == reference


def test_a_missing_shard_of_other_bytes(tmp_path: Path, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of pyarrow writes the same rows as other bytes; another version of ape may write other rows."""
    manifest = generate(task, plan(task), tmp_path).manifest
    shard = tmp_path / "data" / "train-00002-of-00004.parquet"
    shard.unlink()
    monkeypatch.setattr(parquet, "_SPLIT", "PLAIN")
    again = generate(task, plan(task), tmp_path).manifest
    assert again.fingerprint == manifest.fingerprint
    assert again != manifest == manifest.model_copy(update={"fingerprint": again.fingerprint})
    assert generate(task, plan(task), tmp_path).written == 0
    shard.unlink()
    sample = type(task).sample_counted
    monkeypatch.setattr(type(task), "sample_counted", lambda self, **which: sample(self, **which | {"seed": 1}))
    with pytest.raises(DataError, match="generate different rows"):
        generate(task, plan(task), tmp_path)


def test_absurd_sizes(task: Any) -> None:
    for wrong, message in (({"train": 10**15}, r"rows\.train"), (dict.fromkeys(SPLITS, 0), "at least one row")):
        with pytest.raises(UsageError, match=message):
            plan(task, **wrong)
    with pytest.raises(UsageError, match="20,000 are possible"):
        plan(task, 1, train=10**6)
