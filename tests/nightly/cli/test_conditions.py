"""Conditions around a command: signals, a full disk, a terminal without Unicode, folders that disappear."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models import factory
from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.interpreters import python, started, until
from tests.nightly.limits import ape as limited

TRAIN = ("train", "--scheme", "rope", "--preset", "tiny", "--device", "cpu", "--data")


def test_ctrl_c_while_the_program_starts(tmp_path: Path) -> None:
    """From the moment at which the package is imported, there is one line and no traceback."""
    code = """
import os, signal, sys, threading
import ape_cli.__main__ as program
threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), signal.SIGINT)).start()
sys.argv[0] = "ape"
program.main()
"""
    for delay in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4):
        done = python("-c", code, str(delay), "check", "none", where=tmp_path, code=130)
        assert done.stderr == "interrupted: run the same command again to continue\n", delay


UNDER = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.{}); "
    "os.execv(sys.executable, [sys.executable, '-m', 'ape_cli', *sys.argv[1:]])"
)


@pytest.mark.parametrize(
    ("before", "steps", "status"), [("SIG_DFL", 100_000, "stopped"), ("SIG_IGN", 300, "finished")], ids=["", "nohup"]
)
def test_the_end_of_the_terminal(words: Dataset, tmp_path: Path, before: str, steps: int, status: str) -> None:
    """It stores the state of the run and ends the program, which goes on under nohup."""
    settings = ("--set", f"steps={steps}", "--set", "validate_every_steps=50")
    training = started("-c", UNDER.format(before), *TRAIN, str(words.folder), *settings, where=tmp_path)
    until(lambda: list(tmp_path.glob("results/runs/*/history.parquet")), training)
    training.send_signal(signal.SIGHUP)
    _, err = training.communicate(timeout=60)
    assert training.returncode == (130 if status == "stopped" else 0), err
    (found,) = open_registry(tmp_path / "results")
    assert found.status == status
    assert (found.load_state() is not None) == (status == "stopped")


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    for words in (("tasks",), ("gen", "c3", "--n", "5"), ("show", "c3-breadth"), ("runs", "--results", "größe")):
        found = limited(*words, where=tmp_path, PYTHONIOENCODING="ascii")
        assert found.code == 0, found.err


@pytest.mark.parametrize(
    "settings", [{"d_model": 16_384, "d_ff": 1_000_000, "heads": 8, "encoder_layers": 200}, {"max_size": 10**10}]
)
def test_models_that_do_not_fit_into_memory(words: Dataset, tmp_path: Path, settings: dict[str, int]) -> None:
    given = [f"--set={key}={value}" for key, value in settings.items()]
    results = tmp_path / "results"
    ape(*TRAIN, str(words.folder), *given, "--results", str(results), code=2)
    assert not list(open_registry(results))


def test_the_memory_of_a_model_is_estimated_from_below(words: Dataset) -> None:
    """The estimate is at most what the weights, their gradients and two moments really need."""
    from ape_cli.core import memory
    from tests.runs.test_registry import resolve

    wanted = experiment.complete(resolve(d_model=64), words)
    model = factory.build(wanted, words.structure, words.ids)
    real = sum(p.numel() * p.element_size() for p in model.parameters()) * 4
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "most_memory", lambda: real)
        factory.build(wanted, words.structure, words.ids)
        patched.setattr(memory, "most_memory", lambda: real // 4)
        with pytest.raises(UsageError, match="more than this machine's memory"):
            factory.build(wanted, words.structure, words.ids)
    assert torch.is_grad_enabled()
