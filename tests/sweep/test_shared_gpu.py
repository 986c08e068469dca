"""Several processes on one GPU: NVIDIA's service is started, announced and stopped. A program stands in for it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from ape_cli.sweep.worker import shared_gpu

CONTROL = """#!/bin/sh
if [ "$1" = "-d" ]; then echo "started in $CUDA_MPS_PIPE_DIRECTORY" >> "$CALLS"; exit $STATUS; fi
read words; echo "told $words in $CUDA_MPS_PIPE_DIRECTORY" >> "$CALLS"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(CONTROL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("STATUS", "0")
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "calls").touch()
    return tmp_path / "calls"


def test_it_is_started_and_ended(calls: Path) -> None:
    """Also after an error."""
    with suppress(ZeroDivisionError), shared_gpu(True) as shares:
        assert shares
        folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir()
        raise ZeroDivisionError
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert not Path(folder).exists()
    assert calls.read_text().splitlines() == [f"started in {folder}", f"told quit in {folder}"]


def test_processes_take_turns_without_it(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single process does not need the service, and it may fail to start, be running already, or not be installed."""
    with shared_gpu(False) as shares:
        assert not shares
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    with shared_gpu(True) as shares:
        assert shares
    assert os.environ.pop("CUDA_MPS_PIPE_DIRECTORY") == "/elsewhere"
    assert not calls.read_text()
    monkeypatch.setenv("STATUS", "1")
    with shared_gpu(True) as shares:
        assert not shares
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    monkeypatch.setenv("PATH", str(calls.parent))
    with shared_gpu(True) as shares:
        assert not shares
