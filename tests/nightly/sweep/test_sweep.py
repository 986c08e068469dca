"""Sweeps that are killed, stopped or disturbed: nothing is trained twice, and each trial is a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import BusyError, DataError
from ape_cli.data.loader import open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from ape_cli.sweep import combinations, stages
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from tests.conftest import ROOT, ape, grid_of
from tests.interpreters import started, until
from tests.registered import edit
from tests.sweep.test_sweep import ONE, SHORT, facts

pytestmark = pytest.mark.usefixtures("forked_workers")


def start(*words: str) -> subprocess.Popen[str]:
    return started("-m", "ape_cli", "sweep", *words, where=Path.cwd())


FOUR = ["--schemes", "rope", "--tasks", "tree-copy", "--seeds", "1-4", "--preset", "tiny", "--device", "cpu"]
FOUR += ["--set", "steps=60", "--set", "validate_every_steps=10", "--threads", "1"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the four trials if nothing stops them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("uninterrupted"))
        ape("sweep", *FOUR, "--workers", "1")
        return facts(Path("results"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_killed_or_stopped_and_started_again_nothing_is_trained_twice(
    here: Path, uninterrupted: dict[str, Any], number: int, code: int
) -> None:
    process = start(*FOUR, "--workers", "2")
    until(lambda: any(run.read().status == "finished" for run in begun(here)), process)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    done = {run.name: run.read().outcome for run in begun(here) if run.read().status == "finished"}
    assert 1 <= len(done) < 4
    locks_of = [run.folder / ".lock" for run in begun(here)]
    until(lambda: not any(map(files.is_locked, locks_of)))  # workers end with their parent
    out, _ = ape("sweep", *FOUR, "--workers", "1")
    assert f"4 finished; {4 - len(done)} trained now" in out
    assert {name: open_registry("results").find(name).read().outcome for name in done} == done
    assert facts(here / "results") == uninterrupted


ENDLESS = """
import pathlib, time
from ape_cli.position import Scheme


class Endless(Scheme):
    source = "a test"
    unique = False

    def embed(self, x, context):
        if list(pathlib.Path("results/runs").glob("*/run.json")):  # it is trained
            pathlib.Path("in-a-step").touch()
            time.sleep(600)
        return x
"""


def interrupt_twice(folder: Path, words: list[str], **environment: str) -> None:
    """Interrupts a sweep while a trial is in a step that does not end. The second time, the sweep ends."""
    scheme = folder / "mine" / "ape_cli" / "position" / "endless.py"
    scheme.parent.mkdir(parents=True)
    scheme.write_text(ENDLESS)
    grid = ["sweep", "--schemes", "endless", "--tasks", "copy", "--preset", "tiny", "--device", "cpu", *words]
    environment["PYTHONPATH"] = os.pathsep.join([str(folder / "mine"), str(ROOT)])
    process = started("-m", "ape_cli", *grid, where=folder, **environment)
    try:
        until((folder / "in-a-step").exists, process)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for the step
            process.wait(timeout=3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "stopping after the current steps …\nending at once …\n" in err
    assert err.endswith("interrupted: run the same command again to continue\n")
    assert {run.status for run in open_registry(folder / "results") if run.exists()} == {"stopped"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_ctrl_c_ends_trials_in_a_long_step(tmp_path: Path, workers: str) -> None:
    interrupt_twice(tmp_path, ["--seeds", "1-2", "--workers", workers, "--threads", "1"])


def begun(here: Path) -> list[Any]:
    return [run for run in open_registry(here / "results") if (run.folder / "run.json").exists()]


def test_a_trial_that_fails_is_reported_and_the_others_go_on(here: Path) -> None:
    Path("sweep.toml").write_text(
        'preset = "tiny"\ntasks = ["copy"]\nschemes = ["rope", "none"]\n'
        "[[grid]]\nset = { steps = 40, lr_peak = 1e30 }\n[[grid]]\nset = { steps = 4 }\n"
    )
    out, err = ape("sweep", "sweep.toml", "--device", "cpu", *ONE, code=1)
    assert "4 trials: 2 failed, 2 finished; 2 trained now" in out
    assert err.count("the loss is no longer a number") >= 2
    assert err.count("\nfailed: copy-") == 2
    logs = sorted(Path("results/logs").iterdir())
    assert len(logs) == 2
    assert "training copy-none" in logs[0].read_text()
    assert "the loss is no longer a number" in logs[0].read_text()
    ends = json.loads(ape("sweep", "sweep.toml", "--device", "cpu", *ONE, "--json", code=1)[0])["trials"]
    assert [(e["state"], e["trained"], "error" in e) for e in ends] == [
        *[("failed", False, True)] * 2,
        *[("finished", False, False)] * 2,
    ]


def test_a_report_of_a_sweep_has_its_runs_alone_and_says_what_is_missing(here: Path) -> None:
    ape("sweep", "--schemes", "rope,none,alibi", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE)
    Path("mine.toml").write_text(
        'schemes = ["rope", "none"]\ntasks = ["copy"]\nseeds = [42, 43]\npreset = "tiny"\n'
        "set = {steps=6, validate_every_steps=3}\n"
    )
    table = ape("report", "--sweep", "mine.toml", "--format", "markdown")[0]
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:] == [
        "| none",
        "| rope",
        "| *chance*",
        "| *simple rule*",
    ]
    assert "with steps=6, validate_every_steps=3." in table
    assert "Finished: 2 of 4 runs." in table
    other = Path("mine.toml").read_text().replace('"rope", "none"', '"sinusoidal", "none"')
    Path("other.toml").write_text(other.replace("[42, 43]", "[43, 42]"))  # its first trials are not trained
    assert "Finished: 1 of 4 runs." in ape("report", "--sweep", "other.toml")[0]
    filtered = ape("report", "--sweep", "mine.toml", "--scheme", "rope", "--format", "markdown")[0]
    assert "| none" not in filtered
    assert "Finished: 1 of 2 runs." in filtered
    ape("gen", "copy", "--n", "9", "--n-test", "9", "--length-mean", "9", "--out", "longer")
    ape("eval", "--data", "longer")
    assert ape("report", "--sweep", "mine.toml", "--format", "markdown")[0] == table  # on their own data
    assert "copy on longer" in ape("report", "--format", "markdown")[0]
    ape("sweep", "mine.toml", "--device", "cpu", *ONE)
    assert "Finished:" not in ape("report", "--sweep", "mine.toml", "--format", "markdown")[0]


def test_what_is_damaged_fails_alone(here: Path) -> None:
    words = ["sweep", "--schemes", "none,rope", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    runs = {run.read().config.scheme: run for run in open_registry("results")}
    (runs["none"].folder / "run.json").write_text("{")
    groups = combinations.groups([grid_of({"schemes": ["none"], "data": ["broken"]})], "tiny", lambda name: broken())
    with pytest.raises(DataError, match="a shard is missing"):
        stages.plan(groups, open_registry("results"), Path("datasets"))
    shard = next(Path("datasets/copy-tiny/data").glob("test-*.parquet"))
    shard.unlink()  # generated again, because it is needed
    out, err = ape(*words, code=1)
    assert "2 trials: 1 failed, 1 finished; 0 trained now" in out
    assert "run.json is damaged" in err
    assert shard.exists()


def broken() -> Path:
    """A user's own dataset without one of its shards."""
    ape("gen", "copy", "--n", "40", "--length-mean", "5", "--out", "broken")
    next(Path("broken/data").glob("test-*.parquet")).unlink()
    return Path("broken")


def test_a_run_of_another_process_is_to_do(here: Path) -> None:
    words = ["sweep", "--schemes", "none", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    (run,) = open_registry("results")
    edit(Path(str(run.folder)) / "run.json", status="running")
    with files.locked(run.folder / ".lock", BusyError("busy")):
        plan = json.loads(ape(*words, "--dry-run", "--json")[0])
        assert [t["state"] for t in plan["trials"]] == ["running"]
        assert plan["to_do"] == 1


def test_a_run_that_changes_between_the_look_and_the_lock(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process has finished the run in that moment, it is finished and is not trained again."""
    words = ["sweep", "--schemes", "none", "--tasks", "copy", "--preset", "tiny", *SHORT, *ONE]
    ape(*words)
    (run,) = open_registry("results")
    before, looks = run.read(), iter([("stopped", True), ("finished", False)])
    monkeypatch.setattr(trial, "_state", lambda run: next(looks))
    data, found = open_dataset("datasets/copy-tiny"), open_registry("results")
    arguments = (experiment.of(run.record.config, data), found, Execution(torch.device("cpu")))
    with pytest.raises(BusyError, match="another process trained this run in the meantime"):
        trial.run_trial(*arguments, existing=ExistingRun.RESUME_OR_START)
    assert not trial.run_trial(*arguments, existing=ExistingRun.RESUME_OR_START).trained
    assert run.read() == before
