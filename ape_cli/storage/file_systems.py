"""Files of this machine and objects in an object store, which `files.py` writes, reads and locks through one interface.

| | `LocalFile` | `RemoteFile` |
|---|---|---|
| write | a temporary file, which is renamed | a file on this machine, which is uploaded as a whole |
| protection from other processes | a lock | a write on condition that the object has a version |
| list or read many | one at a time | 16 at a time, because each request has a long latency |

A lock is a `flock` on a file. The operating system releases it when the process ends, even if it is killed. On a file
system without locks, and in an object store, every process gets the lock.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ape_cli.core.errors import ApeError, remedy
from ape_cli.storage.object_store import RemotePath, Version
from ape_cli.storage.paths import StoragePath

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")  # the names of temporary files
_OLD = 3600.0  # seconds after which a temporary file that nobody writes to is a leftover


def file_of(path: StoragePath) -> LocalFile | RemoteFile:
    """The interface of a file or folder, which need not exist."""
    return RemoteFile(path) if isinstance(path, RemotePath) else LocalFile(path)


@dataclass(frozen=True)
class LocalFile:
    """A file or folder of this machine."""

    path: Path
    at_once = 1  # files to read at a time

    @contextmanager
    def replacing(self, expected: Version | None) -> Iterator[Path]:
        """As `files.replacing`."""
        path = self.path
        if not path.name or (path.exists() and not path.is_file()):
            raise cannot_write(path, OSError(errno.EINVAL, "it is no regular file"))
        folder(path.parent)
        _remove_old(path.parent)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
            mode = stat.S_IMODE(temporary.stat().st_mode)
            yield temporary
            temporary.chmod(mode)  # some libraries create files for their owner alone
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise cannot_write(path, error) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    @contextmanager
    def local(self) -> Iterator[Path]:
        """As `files.local`."""
        yield self.path

    def version(self) -> Version | None:
        """None: a lock protects the file."""
        return None

    def opened(self) -> io.BufferedReader:
        """As `files.opened`."""
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no regular file", str(self.path))
        return os.fdopen(handle, "rb")

    def read(self, limit: int) -> bytes:
        """As `files.read_bytes`."""
        with self.opened() as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise too_large(self.path, limit)
            return file.read()

    @contextmanager
    def held(self, busy: ApeError, wait: float) -> Iterator[None]:
        """As `files.held`."""
        try:
            handle = self._acquire(busy, time.monotonic() + wait)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        try:
            yield
        finally:
            self.path.unlink(missing_ok=True)
            os.close(handle)

    def _acquire(self, busy: ApeError, until: float) -> int:
        """Open and lock the file; return its file descriptor. Raises `busy` if it stays locked until a time."""
        while True:
            folder(self.path.parent)
            handle = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
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

    def is_locked(self) -> bool:
        """As `files.is_locked`."""
        try:
            with self.opened() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def remove_leftovers(self) -> None:
        """Remove the temporary files of killed processes from this folder, and from the folders in it."""
        for path in (self.path, *(entry for entry in self.path.iterdir() if entry.is_dir())):
            _remove_temporary(path, 0.0)

    def free_bytes(self) -> int | None:
        """The free space of the disk."""
        return shutil.disk_usage(self.path).free


@dataclass(frozen=True)
class RemoteFile:
    """An object in an object store, or what counts as a folder there."""

    path: RemotePath
    at_once = 16

    @contextmanager
    def replacing(self, expected: Version | None) -> Iterator[Path]:
        """As `files.replacing`."""
        with self._temporary() as temporary:
            yield temporary
            self.path.upload(temporary, expected)

    @contextmanager
    def local(self) -> Iterator[Path]:
        """As `files.local`."""
        with self._temporary() as copy:
            self.path.download(copy)
            yield copy

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """Yield a path on this machine, whose file is removed after the block. Raises `ApeError` if the disk fails."""
        try:
            with tempfile.TemporaryDirectory(prefix="ape-") as temporary:
                yield Path(temporary, self.path.name)
        except FileNotFoundError:  # there is no such object
            raise
        except OSError as error:
            raise cannot_write(error.filename or self.path, error) from error

    def version(self) -> Version | None:
        """The version of the object."""
        return self.path.version()

    def opened(self) -> io.BufferedReader:
        """As `files.opened`."""
        return self.path.open("rb")

    def read(self, limit: int) -> bytes:
        """As `files.read_bytes`."""
        return self.path.read_bytes(limit)

    @contextmanager
    def held(self, busy: ApeError, wait: float) -> Iterator[None]:
        """Hold nothing: there are no locks."""
        yield

    def is_locked(self) -> bool:
        """False."""
        return False

    def remove_leftovers(self) -> None:
        """Do nothing: there are no temporary files."""

    def free_bytes(self) -> int | None:
        """None: there is no limit."""
        return None


def folder(path: StoragePath) -> StoragePath:
    """Create the folder `path` with its parents if necessary, and return it.

    Raises `ApeError` if the folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def cannot_write(path: StoragePath | str, error: OSError) -> ApeError:
    """The `ApeError` that says why `path` cannot be written, with the fix for this reason."""
    fix = remedy(error, "choose a place that you may write to")
    return ApeError(f"cannot write {path}", got=error.strerror or str(error), fix=fix)


def too_large(path: StoragePath, limit: int) -> OSError:
    """The error for a file of more than `limit` bytes."""
    return OSError(errno.EINVAL, f"it has more than {limit:,} bytes", str(path))


def is_temporary(name: str) -> bool:
    """Whether this is the name of a temporary file."""
    return _TEMPORARY.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _remove_old(path: Path) -> None:
    """Remove the old temporary files from a folder, once in the life of this process: listing a folder takes time."""
    _remove_temporary(path, _OLD)


def _remove_temporary(path: Path, age: float) -> None:
    """Remove the temporary files to which nothing was written for `age` seconds from a folder."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if is_temporary(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime >= age:
                Path(entry.path).unlink()
