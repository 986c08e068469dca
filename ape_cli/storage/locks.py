"""Locks: only one process at a time writes a run, or generates a dataset, in a local folder.

A lock is a `flock` on a file. The operating system releases it when the process ends, even if it is killed. On a file
system without locks, and in an object store, every process gets the lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ape_cli.core.errors import ApeError
from ape_cli.storage import files
from ape_cli.storage.paths import StoragePath


@contextmanager
def locked(path: StoragePath, busy: ApeError, wait: float = 0.1) -> Iterator[None]:
    """Hold `path` as the lock of its folder during the block, as `held` does.

    Temporary files in the folder, and in the folders in it, are of killed processes; they are removed.
    """
    with held(path, busy, wait):
        if isinstance(path, Path):
            for folder in (path.parent, *(entry for entry in path.parent.iterdir() if entry.is_dir())):
                files.remove_leftovers(folder)
        yield


@contextmanager
def held(path: StoragePath, busy: ApeError, wait: float = 0.1) -> Iterator[None]:
    """Hold `path` as a lock during the block. Raises `busy` if another process holds it for `wait` seconds.

    Raises `ApeError` if the lock file cannot be created.
    """
    if not isinstance(path, Path):
        yield
        return
    try:
        handle = _acquire(path, busy, time.monotonic() + wait)
    except OSError as error:
        raise files.cannot_write(path, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _acquire(path: Path, busy: ApeError, until: float) -> int:
    """Open the lock file and lock it; return its file descriptor. Raises `busy` if it stays locked until a time."""
    while True:
        files.folder(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:  # otherwise the last holder has just removed this file
                return handle
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(handle)
                raise busy from None
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return handle
        os.close(handle)


def is_locked(path: StoragePath) -> bool:
    """Whether some process holds the lock `path` at this moment."""
    if not isinstance(path, Path):
        return False
    try:
        with files.opened(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
