"""Locks: only one process at a time writes a run, or generates a dataset."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    try:
        held = _acquire(path)
    except OSError as error:
        raise files.cannot_write(path, error) from error
    if held is None:
        raise busy
    try:
        yield
    finally:
        if _is_at(held, path):  # otherwise somebody has removed it, and this is the lock of another process
            path.unlink(missing_ok=True)
        os.close(held)


def _acquire(path: Path) -> int | None:
    """Open the lock file and lock it; return its file descriptor, or None if another process holds the lock.

    It tries ten times, because `is_locked` in another process may hold the lock for an instant.
    """
    for _ in range(10):
        files.folder(path.parent)
        with suppress(FileNotFoundError):  # the folder was removed, as that of a run that could not start
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, path):
                    return handle  # the check makes sure that the last holder has not just removed this file
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                os.close(handle)
                raise
            os.close(handle)
    return None


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def is_locked(path: StoragePath) -> bool:
    """Whether some process holds the lock `path` at this moment."""
    if isinstance(path, RemotePath):
        return leases.is_held(path)
    try:
        with files.opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
