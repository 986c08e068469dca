"""Shards that are large holes or pipes: a process with limits reads each of them."""

from __future__ import annotations

import os
from pathlib import Path

from ape_cli.data.loader import Dataset
from tests.data.test_integrity import copied
from tests.nightly.limits import ape as limited


def test_a_shard_that_is_a_large_hole(words: Dataset, tmp_path: Path) -> None:
    """Its digest would take minutes."""
    folder = copied(words, tmp_path)
    shard = next((folder / "data").glob("train-*"))
    whole = shard.read_bytes()
    with shard.open("wb") as file:
        file.truncate(80 * 10**9)
        file.seek(80 * 10**9)
        file.write(whole)
    outcome = limited("verify", "--data", str(folder))
    assert outcome.code == 1
    assert f"cannot read {shard} (it has more than 68,719,476,736 bytes)" in outcome.out


def test_a_shard_of_an_interrupted_generation_that_is_a_pipe(tmp_path: Path) -> None:
    command = ("gen", "copy", "--n", "60", "--n-validation", "2", "--n-test", "2", "--shard-rows", "20", "--out", "d")
    limited(*command, where=tmp_path)
    (tmp_path / "d" / "manifest.json").unlink()
    shard = tmp_path / "d" / "data" / "train-00000-of-00003.parquet"
    shard.unlink()
    os.mkfifo(shard)
    found = limited(*command, where=tmp_path)
    assert found.code == 0 or "error: " in found.err
