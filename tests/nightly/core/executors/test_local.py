"""Workers and signals: real processes that are stopped, and a parent that is killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ape_cli.core.executors import JobContext
from tests.interpreters import python, started, until


def test_workers_are_started_with_ctrl_c_blocked() -> None:
    """All of them, in a new process: multiprocessing starts its resource tracker along with the first worker."""
    code = """
from pathlib import Path
from ape_cli.core.executors import local
pool = [local._Worker(i, {}) for i in range(2)]
for worker in pool:
    lines = Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("SigBlk")))
for worker in pool:
    worker.stop()
"""
    masks = [int(mask, 16) for mask in python("-c", code).stdout.split()]
    assert [bool(mask & 1 << (signal.SIGINT - 1)) for mask in masks] == [True, True]


def linger(context: JobContext, folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    text = (
        "from ape_cli.core.executors import Job\nfrom ape_cli.core.executors.local import Local\n"
        "from tests.nightly.core.executors.test_local import linger\n"
        f"if __name__ == '__main__':\n    list(Local(2).work([Job(k, linger, ({str(tmp_path)!r},)) for k in 'ab']))\n"
    )
    (tmp_path / "parent.py").write_text(text)
    parent = started(str(tmp_path / "parent.py"))

    def marks() -> list[str]:
        return [p.name for p in tmp_path.iterdir() if p.name.isdecimal()]

    until(lambda: len(marks()) == 2)
    parent.kill()
    parent.communicate()
    until(lambda: not any(Path("/proc", name).exists() for name in marks()))
