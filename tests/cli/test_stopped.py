"""A training process that is stopped and resumed ends with the weights of one that nothing stopped.

`tests/nightly/cli/test_cli.py` stops it with other signals.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import ape
from tests.interpreters import STORING, started, until

LONG = ["train", "--scheme", "orthogonal-seq", "--task", "copy", "--preset", "tiny", "--seed", "5",
        "--set", "steps=120", "--set", "validate_every_steps=10", "--set", "dropout=0.1"]  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """What the run prints, and its weights, if nothing stops it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("straight"))
        printed, _ = ape(*LONG)
        (weights,) = Path("results/runs").glob("*/model.safetensors")
        return printed, weights.read_bytes()


def test_a_killed_process_is_resumed_to_the_same_weights(here: Path, straight: tuple[str, bytes]) -> None:
    """A real process is killed after its first checkpoint. The end is that of a run that nothing stopped.

    It takes 5 seconds: the process imports torch, and the run is trained twice.
    """
    check_resumed(here, straight, signal.SIGKILL, -signal.SIGKILL)


def check_resumed(here: Path, straight: tuple[str, bytes], sign: signal.Signals, code: int) -> str:
    """Stops `ape train` with a signal and resumes it. Returns what the stopped process wrote to stderr."""
    process = started("-c", STORING, *LONG, where=here)
    until(lambda: list(here.glob("results/runs/*/state/state.safetensors")), process)
    os.kill(process.pid, sign)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    (folder,) = here.glob("results/runs/*")
    assert json.loads((folder / "run.json").read_text())["status"] != "finished"
    assert "stopped" in ape("runs")[0]
    assert "`--resume`" in ape(*LONG, code=1)[1]
    resumed, _ = ape(*LONG, "--resume")
    printed, weights = straight
    assert resumed.splitlines()[1:] == printed.splitlines()[1:]
    assert (folder / "model.safetensors").read_bytes() == weights
    return err
