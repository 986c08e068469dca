"""Shards that are large holes or pipes: a process with limits reads each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("kind", ["pipe", "hole"])
def test_a_shard_of_an_interrupted_generation_that_is_a_pipe_or_a_hole(tmp_path: Path, kind: str) -> None:
    command = ("gen", "copy", "--n", "60", "--n-validation", "2", "--n-test", "2", "--shard-rows", "20", "--out", "d")
    limited(*command, where=tmp_path)
    (tmp_path / "d" / "manifest.json").unlink()
    shard = tmp_path / "d" / "data" / "train-00000-of-00003.parquet"
    if kind == "pipe":
        shard.unlink()
        os.mkfifo(shard)
    else:
        os.truncate(shard, 40 * 10**9)
    found = limited(*command, where=tmp_path)
    assert found.code in (0, 1)
    assert found.code == 0 or "error: " in found.err
