"""Commands in a process of their own, with their time and memory: nothing may take above 20 s or 1 GiB."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MOST_SECONDS = 20
MOST_BYTES = 2**30


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str
    peak: int  # bytes of memory

    @property
    def text(self) -> str:
        return self.out + self.err


def ape(*words: str, where: Path | str = ".", **environment: str) -> Outcome:
    """Runs `ape` in a new process. Fails for a traceback, and above 20 s or 1 GiB."""
    settings = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    settings |= environment
    command = [sys.executable, "-m", "ape_cli", *words]
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        given = {"cwd": where, "env": settings, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        started = subprocess.Popen(command, **given)  # type: ignore[call-overload]
        # a limit of processor time does not depend on what else runs on the machine
        resource.prlimit(started.pid, resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
        peak, end = 0, time.monotonic() + 3 * MOST_SECONDS  # other tests run beside it
        while started.poll() is None:
            peak = max(peak, _peak(started.pid))
            if time.monotonic() > end:
                started.kill()
            time.sleep(0.01)
        for file in (out, err):
            file.seek(0)
        found = Outcome(started.returncode, out.read(), err.read(), peak)
    shown = f"{' '.join(words)}: exit status {found.code}, {found.peak / 2**20:.0f} MiB\n{found.text[-3000:]}"
    assert found.code not in (-signal.SIGKILL, -signal.SIGXCPU), f"not finished after {MOST_SECONDS} s: {shown}"
    assert "Traceback" not in found.text, shown
    assert found.peak <= MOST_BYTES, shown
    return found


def _peak(process: int) -> int:
    """The largest memory of a running process so far, in bytes; 0 if it has ended.

    The usage that `wait4` reports would include the memory of the process that started it.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
