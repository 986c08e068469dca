"""New Python interpreters, which find this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STORING = """
import runpy
from ape_cli.training import trainer
trainer._SAVE_EVERY = 0.0
runpy.run_module("ape_cli", run_name="__main__")
"""  # `ape`, whose training stores a checkpoint after each step


def started(
    *words: str, where: Path | str = ROOT, path: Sequence[Path | str] = (), **environment: str
) -> subprocess.Popen[str]:
    """Starts Python with these arguments in a folder, in a session of its own, with more folders on PYTHONPATH."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=where,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def python(
    *words: str, where: Path | str = ROOT, path: Sequence[Path | str] = (), code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments, and returns what it printed. It must end with the exit status `code`."""
    process = started(*words, where=where, path=path, **environment)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, out + err
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def until(holds: Callable[[], Any], process: subprocess.Popen[Any] | None = None, seconds: float = 120.0) -> None:
    """Waits until something holds. Fails if the process ends before."""
    end = time.monotonic() + seconds
    while not holds():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
