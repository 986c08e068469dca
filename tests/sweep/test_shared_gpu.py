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


def test_the_service_is_started_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an error. A single process does not need it; it may run already, or fail to start."""
    program, calls = tmp_path / "bin" / "nvidia-cuda-mps-control", tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(CONTROL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("STATUS", "0")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    with suppress(ZeroDivisionError), shared_gpu(True) as shares:
        assert shares
        folder = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        raise ZeroDivisionError
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert calls.read_text().splitlines() == [f"started in {folder}", f"told quit in {folder}"]
    monkeypatch.setenv("STATUS", "1")
    for several in (False, True):
        with shared_gpu(several) as shares:
            assert not shares
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/elsewhere")
    with shared_gpu(True) as shares:
        assert shares
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/elsewhere"
