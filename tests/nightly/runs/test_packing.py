"""Packed runs: several writers of one file, how a process ends that has read one, and crafted files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.runs import packing
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from tests.conftest import ape
from tests.interpreters import started
from tests.nightly.store import at, serving
from tests.registered import put_evaluation, vouch
from tests.reports.test_aggregation import add

SCHEMES = ("none", "rope", "alibi", "t5", "sinusoidal", "learned")


@pytest.fixture
def results(here: Path) -> Path:
    for number, scheme in enumerate(SCHEMES):
        add(here / "results", scheme, number / 10)
    return here / "results"


def test_writers_of_one_file_at_once_lose_nothing(results: Path, here: Path) -> None:
    for round in range(3):
        words = ("-m", "ape_cli", "runs", "--pack", f"{round}.parquet", "--scheme")
        processes = [started(*words, scheme, where=here) for scheme in SCHEMES]
        for process in processes:
            assert process.wait(120) == 0, process.communicate()
            process.communicate()
        assert sum(1 for _ in open_registry(f"{round}.parquet")) == len(SCHEMES)


@pytest.mark.parametrize("there", [True, False])
def test_runs_unpacked_to_an_object_store_at_once_lose_nothing(
    there: bool, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one has read a run.json and not yet written it, another one adds an evaluation. Nobody holds a lock."""
    folder = next((results / "runs").glob("*-none-*"))
    score = {"token_accuracy": 0.5, "exact_match": 0.5, "rows": 10, "tokens": 50}
    ape("runs", "--scheme", "none", "--pack", "teacher.parquet")
    for decode in ("greedy", "teacher"):
        more = {"dataset": "x", "fingerprint": "a" * 64, "split": "test", "decode": decode, "overall": score}
        path = put_evaluation(folder, more)
        ape("runs", "--scheme", "none", "--pack", f"{decode}-too.parquet")
        path.unlink()
        vouch(folder)
    lacking, waiting = packing._lacking, ["teacher-too.parquet"]

    def interrupted(of: Run, run: Run) -> packing.Contents:
        found = lacking(of, run)
        if waiting:
            packing.unpack(Path(waiting.pop()), to)
        return found

    with serving() as server:
        server.bucket("ape")
        to = at(server.endpoint, f"there-{there}")  # the objects of the other test stay in this process
        if there:
            packing.unpack(Path("teacher.parquet"), to)
        monkeypatch.setattr(packing, "_lacking", interrupted)
        assert packing.unpack(Path("greedy-too.parquet"), to) == (1, 0, [])
        (run,) = open_registry(to)
        assert len(run.read().files) == 3
        assert run.problems() == []
