"""`python -m benchmarks.gpu` on a CPU: its stages, its plan, and how it continues after it was killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ape_cli.core.errors import left_out
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import storage_path
from benchmarks.gpu.cells import Pace, items, schedule_within
from benchmarks.gpu.record import Setting
from tests.interpreters import ROOT, python, started, until

TINY = ["--device", "cpu", "--preset", "tiny"]


def test_no_run_is_begun_that_cannot_end(tmp_path: Path) -> None:
    empty = open_registry(storage_path(str(tmp_path)))
    made = items(None, "tf32", empty, storage_path(str(tmp_path)), empty)
    pace = Pace()
    for seconds in (0, 100, 600, 6000):
        for workers in (1, 2, 4):
            planned, left = schedule_within(made, seconds, workers, pace)
            assert len(planned) + len(left) == len(made)
            assert all(one.end <= seconds for one in planned)
            assert all(one.begin >= pace.start_seconds for one in planned)
            for moment in (one.begin for one in planned):
                assert sum(one.begin <= moment < one.end for one in planned) <= workers
    one, several = (pace.seconds(made[0], n) for n in (1, 3))
    assert several - pace.run_seconds == pytest.approx(3 * (one - pace.run_seconds)), "they share one GPU"


def test_a_run_of_record_is_not_repeated_although_its_dataset_is_not_generated(tmp_path: Path) -> None:
    setting = Setting(None, "tf32", "cuda", 2, tmp_path / "out", tmp_path / "work", ROOT / "results" / "record")
    waiting = [(item.data.folder.name, item.config.scheme, item.config.seed) for item in setting.waiting()]
    assert ("tree-rotate-breadth-paper", "rope", 43) in waiting
    assert ("tree-rotate-breadth-paper", "rope", 42) not in waiting


def test_a_killed_call_loses_nothing(tmp_path: Path) -> None:
    """The command is killed, with all of its processes, after its first run, and continues."""
    record = ["-m", "benchmarks.gpu", "record", *TINY, "--workers", "1", "--out", str(tmp_path)]
    child = started(*record, "--minutes", "3")
    until((tmp_path / "record.jsonl").exists, child, seconds=180)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    before = {json.loads(text)["run"] for text in (tmp_path / "record.jsonl").read_text().splitlines()}
    assert before
    python(*record, "--minutes", "2")
    every = [json.loads(text)["run"] for text in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert len(every) == len(set(every)) > len(before)
    with left_out() as bad:
        added = list(open_registry(tmp_path / "runs.parquet").readable())
    assert not bad
    assert before <= {run.name for run, _ in added}
    for run, about in added:
        assert run.problems() == []
        assert about.status == "finished"
        assert not Path(about.dataset.path).is_absolute()
        assert run.evaluations()[0]
        assert not run.has_weights()
