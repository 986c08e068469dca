"""`python -m benchmarks.gpu` on a CPU: its stages, its plan, and how it continues after it was killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ape_cli.core.errors import left_out
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import storage_path
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.cells import Pace, items, schedule_within
from benchmarks.gpu.record import Setting
from tests.interpreters import ROOT, python, started, until

TINY = ["--device", "cpu", "--preset", "tiny"]


def gpu(*words: str, blocked: Path) -> None:
    python("-m", "benchmarks.gpu", *words, path=[blocked])


def test_the_sweeps_of_the_published_paper_come_first(tmp_path: Path) -> None:
    """One seed of every cell comes before a second one of any, and each run is there once."""
    empty = open_registry(storage_path(str(tmp_path)))
    made = items(None, "tf32", empty, storage_path(str(tmp_path)), empty)
    trees, words, preprint = 8 * 10, 3 * 7, 8 * 5 + 3 * 5
    assert len(made) == 3 * (trees + words + preprint) + 1  # `tree` for the mean depth
    assert [item.config.seed for item in made] == sorted(item.config.seed for item in made)
    first = made[0]
    assert (first.data.folder.name, first.config.scheme) == ("tree-rotate-breadth-to-depth-neurips", "orthogonal-tree")
    assert first.variant == "init=rope, precision=tf32"
    assert {item.config.preset for item in made[: trees + words]} == {"neurips"}
    assert {item.data.order for item in made[: trees // 2]} == {"breadth-to-depth"}


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


def killed(path: Path, *words: str, blocked: Sequence[Path] = ()) -> None:
    """Starts a call and kills it, with all of its processes, as soon as a file exists."""
    child = started("-m", "benchmarks.gpu", *words, path=blocked)
    until(path.exists, child, seconds=180)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def test_a_killed_call_loses_nothing(tmp_path: Path) -> None:
    """The command is killed in its second stage and again in its third, and continues each time.

    The calls after the first kill run without polars, rich and typer, as on a machine that lacks these packages.
    """
    blocked, out = tmp_path / "blocked", tmp_path / "out"
    blocked.mkdir()
    for name in ("polars", "rich", "typer"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('{name} is not there')")

    killed(out / "steps.json", *TINY, "--minutes", "3", "--out", str(out))
    checks = json.loads((out / "check.json").read_text())
    assert {entry["status"] for entry in checks.values()} == {"0"}
    assert "skipped" in (out / "check-tests.txt").read_text()
    first = json.loads((out / "steps.json").read_text())["rows"]
    assert first

    gpu("steps", *TINY, "--minutes", "3", "--out", str(out), blocked=blocked)
    found = json.loads((out / "steps.json").read_text())
    assert first.items() < found["rows"].items(), "what was measured is not measured again"
    for row in (*found["rows"].values(), *found["growth"].values(), *found["backends"].values()):
        assert row["ms"] > 0
    assert all(row["over_floor"] > 0 for row in found["rows"].values())

    record = ["record", *TINY, "--workers", "1", "--out", str(out)]
    killed(out / "record.jsonl", *record, "--minutes", "3", blocked=[blocked])
    before = {json.loads(text)["run"] for text in (out / "record.jsonl").read_text().splitlines()}
    assert before
    begun = time.monotonic()
    gpu(*record, "--minutes", "0.9", blocked=blocked)  # the plan allows 47 seconds for one run
    assert time.monotonic() - begun < 54 + 30
    every = [json.loads(text)["run"] for text in (out / "record.jsonl").read_text().splitlines()]
    assert len(every) == len(set(every)) > len(before)

    with left_out() as bad:
        added = list(open_registry(out / "runs.parquet").readable())
    assert not bad
    assert before <= {run.name for run, _ in added}
    for run, about in added:
        assert run.problems() == []
        assert about.status == "finished"
        assert not Path(about.dataset.path).is_absolute()
        assert run.evaluations()[0]
        assert not run.has_weights()


def test_a_recorded_run_is_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def planned() -> list[str]:
        words = ["--dry-run", "--minutes", "1", "--results", str(tmp_path), "--out", str(tmp_path)]
        assert main(["record", *TINY, *words]) == 0
        return [line.split("]")[1] for line in capsys.readouterr().out.splitlines() if " seed " in line]

    assert "orthogonal-tree  seed 42" in planned()[0]
    store = open_registry(storage_path(str(tmp_path / "none")))
    first = items("tiny", "fp32", store, storage_path(str(tmp_path / "none")), store)[0]
    (tmp_path / "runs" / first.name).mkdir(parents=True)
    (tmp_path / "runs" / first.name / "run.json").write_text("{}")
    assert "orthogonal-seq   seed 42" in planned()[0]
