"""A process that is killed while it trains, or just after its run was finished."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import safetensors

from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.interpreters import python
from tests.nightly.training.loggers.test_tensorboard import scalars

_KILLED = """
import os, runpy, signal
from ape_cli.runs.run import Run
real = Run.remove_state
def killed(self):
    if {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self)
    os.kill(os.getpid(), signal.SIGKILL)
Run.remove_state = killed
runpy.run_module("ape_cli", run_name="__main__")
"""


_TINY = ("--preset", "tiny", "--set", "steps=4", "--device", "cpu", "--no-eval")


@pytest.mark.parametrize("again", ["train", "sweep"])
@pytest.mark.parametrize("before", [True, False], ids=["before the state is removed", "before the lock is removed"])
def test_killed_after_the_run_was_finished(words: Dataset, tmp_path: Path, before: bool, again: str) -> None:
    """The next command that trains the run removes what is left, and the run stays as it is."""
    settings = (*_TINY, "--data", str(words.folder), "--results", str(tmp_path))
    python("-c", _KILLED.format(before=before), "train", "--scheme", "rope", *settings, code=-signal.SIGKILL)
    (found,) = open_registry(tmp_path)
    folder = Path(str(found.folder))
    assert found.status == "finished"
    assert (folder / ".lock").exists()
    assert (folder / "state" / "state.safetensors").exists() == before
    about = (folder / "run.json").read_bytes()
    if again == "train":
        ape("train", "--scheme", "rope", *settings)
    else:
        ape("eval", "--results", str(tmp_path), "--data", str(words.folder))  # otherwise the sweep has to evaluate it
        about = (folder / "run.json").read_bytes()  # it lists the evaluation
        words_of_sweep = [word for word in settings if word != "--no-eval"]
        ape("sweep", "--schemes", "rope", "--seeds", "42", *words_of_sweep)
    assert (folder / "run.json").read_bytes() == about
    assert {p.name for p in folder.iterdir()} - {"eval"} == {"run.json", "model.safetensors", "history.parquet"}


_STORED_OFTEN = """
import os, runpy, signal
from ape_cli.training import trainer
trainer._SAVE_EVERY = 0.1
real = trainer.Trainer.due
def due(self):
    if self.progress.step == 517:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self)
trainer.Trainer.due = due
runpy.run_module("ape_cli", run_name="__main__")
"""


def test_a_run_that_was_killed_between_two_validations_has_a_log_without_a_gap(words: Dataset, tmp_path: Path) -> None:
    """Its state is newer than its last validation. The log has each step once, as that of a run without a kill."""
    settings = ["train", "--scheme", "rope", "--preset", "tiny", "--device", "cpu", "--no-eval", "--log", "json-lines"]
    settings += ["--log", "tensorboard", "--set", "steps=600", "--set", "validate_every_steps=300"]
    settings += ["--data", str(words.folder)]
    ape(*settings, "--results", str(tmp_path / "straight"))
    python("-c", _STORED_OFTEN, *settings, "--results", str(tmp_path / "killed"), code=-signal.SIGKILL)
    (folder,) = (tmp_path / "killed" / "runs").iterdir()
    with safetensors.safe_open(folder / "state" / "state.safetensors", "pt") as state:
        assert 310 < json.loads(state.metadata()["ape"])["step"] <= 517
    ape(*settings, "--results", str(tmp_path / "killed"), "--resume")
    timed, logs = {"seconds", "tokens_per_second"}, []
    for name in ("straight", "killed"):
        (log,) = (tmp_path / name / "runs").glob("*/logs")
        lines = [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]
        events = {key: value for key, value in scalars(log / "tensorboard").items() if key not in timed}
        logs.append(([{k: v for k, v in line.items() if k not in timed} for line in lines], events))
    assert [line["step"] for line in logs[0][0] if "recent_loss" in line] == list(range(10, 601, 10))
    assert logs[0] == logs[1]
