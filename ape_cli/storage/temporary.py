"""Temporary files, in which new content is written before it replaces a file.

Each writer has a file of its own, `.NAME.RANDOM.tmp`, in the folder of the file that it replaces. It is created
exclusively: an existing file or link with this name is never opened. The writer holds a lock (`flock`) on a second
file, `.NAME.RANDOM.tmp.lock`. The operating system releases the lock when the process ends. Therefore a temporary file
whose lock is free was left by a process that was killed, and the next process that writes into the folder removes it.
The lock is on a file of its own because some libraries replace the file that they write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

PATTERN = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp(?P<lock>\.lock)?")  # of temporary files and of their locks
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # does not wait for the other end of a pipe


@contextmanager
def temporary_beside(path: Path) -> Iterator[tuple[Path, int]]:
    """Create a temporary file for the new content of `path`, whose folder exists.

    Yields its path, and a descriptor that keeps its lock. At the end of the block the file is removed, unless it was
    renamed.

    Raises `OSError` if it cannot be created.
    """
    _remove_abandoned(path.parent)
    lock, handle = _locked(path)
    temporary = lock.with_suffix("")
    try:
        os.close(os.open(temporary, _NEW, 0o666))
        yield temporary, handle
    finally:
        discard(temporary)
        os.close(handle)


def discard(temporary: Path) -> None:
    """Remove a temporary file and its lock, as far as they exist."""
    for left in (temporary, Path(f"{temporary}.lock")):  # in this order: without a lock, the file counts as abandoned
        with suppress(OSError):
            left.unlink(missing_ok=True)


def settle(temporary: Path, handle: int) -> None:
    """Write a temporary file to the disk, and give it the permissions of a new file.

    `handle` is the descriptor of `temporary_beside`, whose file has the permissions of a new file. A library may have
    replaced the temporary file by another one meanwhile.

    Raises `OSError` if that fails, or if the path is no regular file any more.
    """
    now = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(now).st_mode):
            raise OSError(errno.EINVAL, "the temporary file was replaced", str(temporary))
        os.fchmod(now, stat.S_IMODE(os.fstat(handle).st_mode))  # some libraries create files for their owner alone
        os.fsync(now)
    finally:
        os.close(now)


def _locked(path: Path) -> tuple[Path, int]:
    """Create and lock the lock of a temporary file for `path`. Raises `OSError` if it cannot be created."""
    while True:
        lock = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp.lock")
        handle = os.open(lock, _NEW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process has found it without a lock, and removes it
            os.close(handle)
            continue
        except OSError:  # a file system without locks, on which nobody removes it
            return lock, handle
        if os.fstat(handle).st_nlink:
            return lock, handle
        os.close(handle)  # another process has removed it before it was locked


@lru_cache(maxsize=1024)
def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder. A process does this once for each folder."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            name = PATTERN.fullmatch(entry.name)
            if name and name["lock"]:
                _remove_unlocked(Path(entry.path))
            elif name and entry.is_file(follow_symlinks=False) and not os.path.lexists(f"{entry.path}.lock"):
                Path(entry.path).unlink(missing_ok=True)


def _remove_unlocked(lock: Path) -> None:
    """Remove a lock and its temporary file, if no process holds the lock. It is held meanwhile."""
    try:
        handle = os.open(lock, _OLD)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.with_suffix("").unlink(missing_ok=True)
        lock.unlink(missing_ok=True)
    except OSError:  # it is held, or the file system has no locks
        pass
    finally:
        os.close(handle)
