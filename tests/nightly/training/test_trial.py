"""A process that is killed just after its run was finished."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.interpreters import python

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
