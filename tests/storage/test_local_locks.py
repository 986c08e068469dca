"""Locks in a local folder: one holder at a time, although the lock file is removed each time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ape_cli.core.errors import BusyError
from ape_cli.runs.run import Run
from ape_cli.storage import locks
from tests.storage.test_temporary import started

BUSY = BusyError("busy")


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".lock"
    with locks.locked(lock, BUSY):
        assert locks.is_locked(lock)
        with pytest.raises(BusyError), locks.locked(lock, BUSY):
            pass
    assert not lock.exists()
    assert not locks.is_locked(lock)


def test_a_run_that_is_forgotten_takes_no_lock_of_another_process(tmp_path: Path) -> None:
    """`forget` removes the lock while it is held. At its end, the holder must not remove the next one's lock."""
    run = Run(tmp_path / "run")
    lock = tmp_path / "run" / ".lock"
    with run.writing():
        run.forget()
        assert not lock.parent.exists()
        second = locks._acquire(lock)
        assert second is not None
    assert lock.exists()
    with pytest.raises(BusyError), run.writing():
        pass
    os.close(second)


def test_many_processes_that_take_turns(tmp_path: Path) -> None:
    """Each of them sees the lock as free or as busy, whatever the others remove meanwhile."""
    code = """
import os, sys
from contextlib import suppress
from pathlib import Path
from ape_cli.core.errors import BusyError
from ape_cli.storage import locks
folder, had = Path(sys.argv[1]), 0
while had < 200:
    try:
        with locks.locked(folder / ".lock", BusyError("busy")):
            os.close(os.open(folder / "held", os.O_CREAT | os.O_EXCL))  # fails if two hold it
            (folder / "held").unlink()
            had += 1
            if had % 3 == 0:  # as a run that could not start
                (folder / ".lock").unlink()
                with suppress(OSError):  # another process has a lock in it again
                    folder.rmdir()
    except BusyError:
        pass
"""
    several = [started(code, str(tmp_path / "run"), stderr=subprocess.PIPE) for _ in range(4)]
    told = [one.communicate()[1] for one in several]
    assert not any(told), told


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    assert not locks.is_locked(tmp_path / ".lock")
