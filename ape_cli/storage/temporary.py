"""Temporary files, in which new content is written before it replaces a file.

Each writer has a file of its own, `.NAME.RANDOM.tmp`, in the folder of the file that it replaces. It is created
exclusively: an existing file or link with this name is never opened. The writer holds a lock on it (`flock`), which the
operating system releases when the process ends. Therefore a temporary file without a lock was left by a process that
was killed, and it is removed by the next process that writes into the folder.
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

PATTERN = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp")  # the name of a temporary file; `name` is the final name
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # does not wait for the other end of a pipe


@contextmanager
def temporary_beside(path: Path) -> Iterator[tuple[Path, int]]:
    """Create a temporary file for the new content of `path`, whose folder exists.

    Yields its path, and a descriptor that keeps it locked. At the end of the block the file is removed, unless it was
    renamed.

    Raises `OSError` if it cannot be created.
    """
    _remove_abandoned(path.parent)
    temporary, handle = _create(path)
    try:
        yield temporary, handle
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def settle(temporary: Path, handle: int) -> None:
    """Write a temporary file to the disk, and give it the permissions of a new file.

    `handle` is the descriptor of `temporary_beside`. A library may have replaced the file by another one meanwhile.

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


def _create(path: Path) -> tuple[Path, int]:
    """Create and lock a temporary file for `path`. Raises `OSError` if it cannot be created."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        handle = os.open(temporary, _NEW, 0o666)
        with suppress(OSError):  # a file system without locks: nobody removes the file then, see `_is_abandoned`
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink:
            return temporary, handle
        os.close(handle)  # another process has removed it before it was locked


@lru_cache(maxsize=1024)
def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder. A process does this once for each folder."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if PATTERN.fullmatch(entry.name) and _is_abandoned(Path(entry.path)):
                Path(entry.path).unlink(missing_ok=True)


def _is_abandoned(temporary: Path) -> bool:
    """Whether no process holds the lock of a temporary file. False if this cannot be said."""
    try:
        handle = os.open(temporary, _OLD)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
