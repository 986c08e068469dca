"""Crafted JSON files of runs and datasets: each costs a moment, and ends with one message."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ape_cli.core.errors import DataError, left_out
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from tests.nightly.limits import ape as limited
from tests.registered import edit
from tests.reports.test_aggregation import add

MANY = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of one of two runs in `tmp_path`."""
    for scheme in ("rope", "t5"):
        add(tmp_path, scheme, 0.5)
    return min((tmp_path / "runs").iterdir())


def test_a_manifest_with_a_million_shards(words: Dataset, tmp_path: Path) -> None:
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    edit(folder / "manifest.json", shards={"train": [{}] * MANY})
    outcome = limited("verify", "--data", str(folder), where=tmp_path)
    assert outcome.code == 1
    assert "manifest.json was altered" in outcome.text
    rows = {"train": 10**12, "validation": 1, "test": 1}
    edit(folder / "manifest.json", lambda fields: fields["plan"].update(rows=rows, shard_rows=1))
    with pytest.raises(DataError, match=r"1,000,000,000,002 shards of 1 rows; at most 20,000 are possible"):
        manifest.read_manifest(folder)


def test_a_file_beyond_its_limit_and_a_pipe_are_not_read(folder: Path, tmp_path: Path) -> None:
    """Opening a pipe waits for a writer."""
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(files.JSON_BYTES + 1)
    with pytest.raises(OSError, match="more than 8,388,608 bytes"):
        files.read_bytes(tmp_path / "x.json")
    (folder / "run.json").unlink()
    os.mkfifo(folder / "run.json")
    with left_out() as bad:
        assert len(list(open_registry(tmp_path).readable())) == 1
    assert "no regular file" in bad[0]


def test_links_that_lead_nowhere_or_to_themselves(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.5)
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs" / "loop")
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nothing")
    for words in (("runs",), ("report",), ("sweep", "--schemes", "rope", "--tasks", "copy", "--dry-run")):
        outcome = limited(*words, "--results", str(tmp_path), where=tmp_path)
        assert outcome.code == 0, outcome.err
