"""Conditions around a command: signals, a full disk, a terminal without Unicode, folders that disappear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ape_cli import experiment
from ape_cli.core.errors import RunError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.models import factory
from ape_cli.runs.registry import open_registry
from ape_cli.training.execution import ExistingRun
from tests.conftest import ROOT, ape
from tests.nightly.limits import ape as limited
from tests.registered import edit
from tests.runs.test_registry import run

TRAIN = ("train", "--scheme", "rope", "--preset", "tiny", "--device", "cpu", "--data")


def started(words: tuple[str, ...], where: Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ape_cli", *words]
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.Popen(command, cwd=where, env=settings, stderr=subprocess.PIPE, text=True)


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
        command = [sys.executable, "-c", code, str(delay), "check", "none"]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (130, "interrupted: run the same command again to continue\n"), delay


def test_the_end_of_the_terminal_stores_the_state(words: Dataset, tmp_path: Path) -> None:
    settings = ("--set", "steps=100000", "--set", "validate_every_steps=50")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    training = started((*TRAIN, str(words.folder), *settings), tmp_path)
    signal.signal(signal.SIGHUP, before)
    with training:
        while not list(tmp_path.glob("results/runs/*/history.parquet")):
            assert training.poll() is None
            time.sleep(0.05)
        training.send_signal(signal.SIGHUP)
        _, err = training.communicate(timeout=60)
    assert training.returncode == 130, err
    (found,) = open_registry(tmp_path / "results")
    assert found.status == "stopped"
    assert found.load_state()


def test_nohup_is_respected(words: Dataset, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    )
    settings = ("--set", "steps=300", "--set", "validate_every_steps=50")
    command = [sys.executable, "-c", code, sys.executable, "-m", "ape_cli", *TRAIN, str(words.folder), *settings]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}) as training:
        while not list(tmp_path.glob("results/runs/*/history.parquet")):
            assert training.poll() is None
            time.sleep(0.05)
        training.send_signal(signal.SIGHUP)
    assert training.returncode == 0


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


def test_a_damaged_run_is_replaced_only_by_overwrite(words: Dataset, tmp_path: Path) -> None:
    done = run(words, tmp_path).run
    edit(Path(str(done.folder)) / "run.json", started=[1])
    with pytest.raises(RunError, match="started"):
        run(words, tmp_path)
    assert run(words, tmp_path, existing=ExistingRun.OVERWRITE).trained


def test_the_memory_of_a_model_is_estimated_from_below(words: Dataset) -> None:
    """The estimate is at most what the weights, their gradients and two moments really need."""
    from ape_cli.core import runtime
    from tests.runs.test_registry import resolve

    wanted = experiment.complete(resolve(d_model=64), words)
    model = factory.build(wanted, words.structure, words.ids)
    real = sum(p.numel() * p.element_size() for p in model.parameters()) * 4
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runtime, "half_memory", lambda: real // 2)
        factory.build(wanted, words.structure, words.ids)
        patched.setattr(runtime, "half_memory", lambda: real // 8)
        with pytest.raises(UsageError, match="does not fit into this machine's memory"):
            factory.build(wanted, words.structure, words.ids)
    assert torch.is_grad_enabled()
