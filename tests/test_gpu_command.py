"""`python -m benchmarks.gpu` on a CPU: its stages, its plan, and going on after it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from ape_cli import place, registry
from ape_cli.errors import DataError
from benchmarks.gpu.cells import Pace, cells, items, schedule_within
from benchmarks.gpu.packing import add, pack

ROOT = Path(__file__).parents[1]
TINY = ["--device", "cpu", "--preset", "tiny", "--workers", "1"]


def command(*words: str, blocked: Path | None = None) -> tuple[list[str], dict[str, str]]:
    path = [str(ROOT)] + ([str(blocked)] if blocked else [])
    return [sys.executable, "-m", "benchmarks.gpu", *words], os.environ | {"PYTHONPATH": os.pathsep.join(path[::-1])}


def gpu(*words: str, code: int = 0, blocked: Path | None = None) -> str:
    line, environment = command(*words, blocked=blocked)
    done = subprocess.run(line, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_cells_are_in_the_order_of_their_worth() -> None:
    found = cells()
    assert found[0] == (42, ("tree-rotate", "breadth", "orthogonal-tree"))
    assert len(found) == len(set(found)) == 3 * (4 * 2 * 5 + 3 * 5)
    seeds = [seed for seed, _ in found]
    assert seeds == sorted(seeds)


def test_no_run_is_begun_that_cannot_end(tmp_path: Path) -> None:
    made = items("paper", "tf32", registry.open(place.of(str(tmp_path))), place.of(str(tmp_path)))
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


def test_a_plan_is_printed_and_nothing_trained(tmp_path: Path) -> None:
    said = gpu("record", "--dry-run", "--minutes", "20", "--out", str(tmp_path / "out"))
    assert "tree-rotate  breadth            orthogonal-tree  seed 42" in said
    assert "minutes" in said.splitlines()[-1]
    assert not list(tmp_path.rglob("run.json"))


def test_all_stages_within_their_time(tmp_path: Path) -> None:
    """Without polars, rich and typer, as on a machine that has none of them."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("polars", "rich", "typer"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('{name} is not there')")
    begun = time.monotonic()
    for stage, minutes in (("steps", "1"), ("record", "1")):
        gpu(stage, *TINY, "--minutes", minutes, "--out", str(tmp_path / "out"), blocked=blocked)
    assert time.monotonic() - begun < 60 * 2 + 30
    found = json.loads((tmp_path / "out" / "steps.json").read_text())
    assert found["rows"]
    assert found["growth"]
    for row in (*found["rows"].values(), *found["growth"].values()):
        assert row["ms"] > 0
    assert all(row["over_floor"] > 0 for row in found["rows"].values())
    (packed,) = (tmp_path / "out").glob("runs-*.tar.gz")
    names = add(packed, tmp_path / "elsewhere")
    assert names
    assert add(packed, tmp_path / "elsewhere") == [], "they are there already"
    for run, about in registry.open(place.of(str(tmp_path / "elsewhere"))).sound([]):
        assert about["status"] == "finished"
        assert not Path(about["dataset"]["path"]).is_absolute()
        assert run.evaluations()[0]
        assert not list(Path(str(run.folder)).rglob("*.safetensors"))


def test_a_killed_record_goes_on(tmp_path: Path) -> None:
    """What is finished is packed before the next run is; the others are trained by the next call."""
    line, environment = command("record", *TINY, "--minutes", "3", "--out", str(tmp_path))
    with subprocess.Popen(line, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True) as child:
        log = tmp_path / "record.jsonl"
        until = time.monotonic() + 120
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.1)
        os.killpg(child.pid, signal.SIGKILL)
    before = {json.loads(text)["run"] for text in log.read_text().splitlines()}
    assert before
    gpu("record", *TINY, "--minutes", "1", "--out", str(tmp_path))
    every = [json.loads(text)["run"] for text in log.read_text().splitlines()]
    assert len(every) == len(set(every)) > len(before)
    (packed,) = tmp_path.glob("runs-*.tar.gz")
    assert before <= set(add(packed, tmp_path / "elsewhere"))


def test_the_checks_are_skipped_without_a_gpu(tmp_path: Path) -> None:
    said = gpu("check", *TINY, "--minutes", "1.5", "--out", str(tmp_path))
    assert "skipped" in said
    found = json.loads((tmp_path / "check.json").read_text())
    assert {entry["status"] for entry in found.values()} == {"0"}


def test_what_is_no_run_is_not_unpacked(tmp_path: Path) -> None:
    for name in ("../outside/run.json", "a/b/c.json", "a/model.safetensors"):
        with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as file:
            (tmp_path / "x").write_text("{}")
            file.add(tmp_path / "x", arcname=name)
        with pytest.raises(DataError, match="something else than runs"):
            add(tmp_path / "bad.tar.gz", tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_runs_that_are_not_finished_are_not_packed(tmp_path: Path) -> None:
    assert pack(tmp_path, tmp_path) == []


def test_it_says_what_is_wrong(tmp_path: Path) -> None:
    assert "no CUDA device here" in gpu("record", "--out", str(tmp_path), code=1)
    assert "above 0" in gpu("record", "--minutes", "0", code=2)
    assert "add needs a FILE" in gpu("add", code=2)
    for words in (["steps", "--dry-run"], ["--dry-run"], ["check", "--then", "5"]):
        assert "--dry-run and --then are of record" in gpu(*words, code=2)
