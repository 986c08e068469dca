"""Crafted datasets, runs and files cost a moment: each ends with one message, within 20 seconds and 1 GiB."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from tests.nightly.limits import ape
from tests.registered import edit
from tests.reports.test_aggregation import add


def test_a_manifest_with_a_trillion_shards(words: Dataset, tmp_path: Path) -> None:
    """It is refused, and it does not keep other datasets from being used."""
    (tmp_path / "datasets").mkdir()
    for name in ("good", "bad"):
        shutil.copytree(str(words.folder), tmp_path / "datasets" / name)
    bad = tmp_path / "datasets" / "bad"
    edit(
        bad / "manifest.json",
        lambda fields: fields["plan"].update(rows={"train": 10**12, "validation": 1, "test": 1}, shard_rows=1),
    )
    with pytest.raises(DataError, match=r"1,000,000,000,002 shards of 1 rows; at most 20,000 are possible"):
        manifest.read_manifest(bad)
    settings = ("--scheme", "rope", "--preset", "tiny", "--set", "steps=1", "--device", "cpu")
    found = ape("train", *settings, where=tmp_path)
    assert (found.code, "data: datasets/good, the newest" in found.err) == (0, True)


def test_gen_with_too_many_shards(tmp_path: Path) -> None:
    found = ape("gen", "copy", "--n", "1000000000", "--shard-rows", "1", where=tmp_path)
    assert found.code == 2
    assert "shards of 1 rows; at most 20,000 are possible" in found.err
    assert not list(tmp_path.iterdir())


def test_more_shards_than_files_may_be_open(tmp_path: Path) -> None:
    """1,200 shards, in a process that may open 64 files."""
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from tests.conftest import write
from ape_cli import tasks
from ape_cli.data import generation
from ape_cli.data.loader import open_dataset
task = tasks.make("copy", length_mean=5, length_std=1)
rows = {{"train": 200, "validation": 3, "test": 3}}
generation.generate(task, generation.plan(task, seed=1, rows=rows, shard_rows=1), Path({str(tmp_path)!r}) / "d")
split = open_dataset({str(tmp_path / "d")!r}).split("train")
print(split.table().num_rows, sum(len(batch.row) for batch in split.batches(16, seed=1)))
"""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "200 200\n", done.stderr


def test_what_is_no_regular_file_is_not_waited_for(words: Dataset, tmp_path: Path) -> None:
    """Opening a pipe waits for a writer."""
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    with pytest.raises(DataError, match="no regular file"):
        manifest.read_manifest(folder)
    add(tmp_path, "rope", 0.5)
    (run,) = (tmp_path / "runs").iterdir()
    for path in (run / "run.json", next((run / "eval").iterdir())):
        path.unlink()
        os.mkfifo(path)
    bad: list[str] = []
    assert list(open_registry(tmp_path).readable(bad)) == []
    assert "no regular file" in bad[0]


def test_a_file_is_not_read_beyond_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(budget.JSON_BYTES + 1)
    with pytest.raises(OSError, match="more than 8,388,608 bytes"):
        files.read_bytes(path)
    os.truncate(path, budget.JSON_BYTES)
    assert len(files.read_bytes(path)) == budget.JSON_BYTES


def test_links_that_lead_nowhere_or_to_themselves(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.5)
    (tmp_path / "runs" / "loop").symlink_to(tmp_path / "runs" / "loop")
    (tmp_path / "runs" / "gone").symlink_to(tmp_path / "nothing")
    for words in (("runs",), ("report",), ("sweep", "--schemes", "rope", "--tasks", "copy", "--dry-run")):
        found = ape(*words, "--results", str(tmp_path), where=tmp_path)
        assert found.code == 0, found.err


def test_rows_of_a_run_that_would_be_drawn_again(tmp_path: Path) -> None:
    """The sizes that training saw are drawn again from the task, so their number is limited."""
    from ape_cli.reports.views import by_size

    trained = {"task": "copy", "order": None, "parameters": {}, "seed": 1, "rows": {"train": 10**12}}
    start = time.perf_counter()
    assert by_size.seen(trained) is None
    assert time.perf_counter() - start < 1


def test_a_row_group_with_too_many_values(words: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "GROUP_VALUES", 50)
    with pytest.raises(DataError, match=r"a row group of .* is too large"):
        open_dataset(words.folder).split("train")
