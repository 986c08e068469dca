"""Locks in a local folder: one holder at a time, although the lock file is removed each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import BusyError
from ape_cli.storage import files
from tests.interpreters import started

BUSY = BusyError("busy")


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".lock"
    with files.locked(lock, BUSY):
        assert files.is_locked(lock)
        with pytest.raises(BusyError), files.locked(lock, BUSY):
            pass
    assert not lock.exists()
    assert not files.is_locked(lock)


def test_what_killed_processes_left_is_removed_under_the_lock(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    left = [tmp_path / f".x.json.{'0' * 16}.tmp", tmp_path / "data" / f".y.{'a' * 16}.tmp"]
    kept = [tmp_path / ".notes.tmp", tmp_path / "x.json"]
    for path in (*left, *kept):
        path.touch()
    with files.locked(tmp_path / ".lock", BUSY):
        pass
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_many_processes_that_take_turns(tmp_path: Path) -> None:
    """Each of them sees the lock as free or as busy, whatever the others remove meanwhile."""
    code = """
import os, sys
from pathlib import Path
from ape_cli.core.errors import BusyError
from ape_cli.storage import files
folder, had = Path(sys.argv[1]), 0
while had < 200:
    try:
        with files.locked(folder / ".lock", BusyError("busy")):
            os.close(os.open(folder / "held", os.O_CREAT | os.O_EXCL))  # fails if two hold it
            (folder / "held").unlink()
            had += 1
    except BusyError:
        pass
"""
    several = [started("-c", code, str(tmp_path / "run")) for _ in range(4)]
    told = [one.communicate()[1] for one in several]
    assert not any(told), told
