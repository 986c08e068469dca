"""Locks: only one process at a time writes a run, or generates a dataset."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ape_cli.core.errors import ApeError
from ape_cli.storage import files, leases
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath


@contextmanager
def locked(path: StoragePath, busy: ApeError) -> Iterator[None]:
    """Hold `path` as a lock during the block. Raises `busy` if another process holds it.

    The lock of a local path is released when the process ends, even if it is killed. In an object store the lock is a
    lease (`leases.py`): after a process was killed, its lease stays for up to a minute.

    Raises `ApeError` if the lock file cannot be created.
    """
    if isinstance(path, RemotePath):
        with leases.held(path, busy):
            yield
        return
    files.folder(path.parent)
    try:
        held = _acquire(path)
    except OSError as error:
        raise files.cannot_write(path, error) from error
    if held is None:
        raise busy
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


def _acquire(path: Path) -> int | None:
    """Open the lock file and lock it; return its file descriptor, or None if another process holds the lock.

    It tries ten times, because `is_locked` in another process may hold the lock for an instant.
    """
    for _ in range(10):
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                return handle  # the check makes sure that the last holder has not just removed this file
        except BlockingIOError:
            time.sleep(0.01)
        os.close(handle)
    return None


def is_locked(path: StoragePath) -> bool:
    """Whether some process holds the lock `path` at this moment."""
    if isinstance(path, RemotePath):
        return leases.is_held(path)
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
