"""Files and folders. Writes are atomic: a file with a final name is always complete.

Each file is written as `.NAME.RANDOM.tmp` in its own folder, flushed to the disk, and then renamed. The leading dot
hides the temporary file from Parquet readers. The temporary file is created exclusively: an existing file or link is
never opened. If several processes write the same file, the last one to rename wins. A temporary file of a killed
process is removed by the next process that locks its folder (`locked`).

A lock is a `flock` on a file. The operating system releases it when the process ends, even if it is killed. On a file
system without locks, and in an object store, every process gets the lock.

`_LocalFile` and `RemotePath` have the same methods for what differs between this machine and an object store:

| | this machine | object store |
|---|---|---|
| write | a temporary file, which is renamed | a file on this machine, which is uploaded as a whole |
| protection from other processes | a lock | a write on condition that the object has a version |
| list or read many | one at a time | 16 at a time, because each request has a long latency |
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import stat
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic_core import from_json

from ape_cli.core.errors import ApeError, cannot_write, remedy
from ape_cli.storage.object_store import ConflictError, RemotePath, Version, too_large
from ape_cli.storage.paths import StoragePath

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")  # the names of temporary files
TOML_BYTES = 16 * 2**10  # the most that a TOML file may have; the parser's time can grow with the square of the size
JSON_BYTES = 8 * 2**20  # the most that a JSON file may have, and any other small one
TRIES = 20  # of an update in an object store; one fails only if another process has changed the object meanwhile
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class _LocalFile:
    """A file of this machine."""

    path: Path
    at_once: ClassVar[int] = 1

    @contextmanager
    def replacing(self, expected: Version | None) -> Iterator[Path]:
        path = self.path
        if not path.name or (path.exists() and not path.is_file()):
            raise cannot_write(path, OSError(errno.EINVAL, "it is not a regular file"))
        folder(path.parent)
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
        yield self.path

    def open(self) -> io.BufferedReader:
        handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is not a regular file", str(self.path))
        return os.fdopen(handle, "rb")

    def source(self) -> Any:
        import pyarrow as pa

        return pa.OSFile(str(self.path))

    def read_bytes(self, limit: int) -> bytes:
        with self.open() as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise too_large(self.path, limit)
            return file.read()

    def version(self) -> None:
        """None, because a lock protects the file."""

    @contextmanager
    def held(self, busy: ApeError, wait: float) -> Iterator[None]:
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
        try:
            with self.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def remove_temporary(self) -> None:
        for folder in (self.path.parent, *(entry for entry in self.path.parent.iterdir() if entry.is_dir())):
            with suppress(OSError):
                for entry in folder.iterdir():
                    if is_temporary(entry.name):
                        entry.unlink()


def _of(path: StoragePath) -> _LocalFile | RemotePath:
    """What knows how to read, write and lock a file."""
    return path if isinstance(path, RemotePath) else _LocalFile(path)


def replacing(path: StoragePath, expected: Version | None = None) -> AbstractContextManager[Path]:
    """A context with a temporary path; at the end of the block, its file atomically replaces `path`.

    If the block raises an exception, the temporary file is removed and `path` is unchanged. `expected` is the version
    that an object must have to be replaced (`RemotePath.replacing`).

    Raises `ApeError` if `path` is no regular file or cannot be written.
    """
    return _of(path).replacing(expected)


def local(path: StoragePath) -> AbstractContextManager[Path]:
    """A context with a local file that has the content of `path`.

    A local `path` is yielded itself. An object is downloaded to a temporary copy, which is removed after the block.

    Raises `ApeError` if this machine's disk fails.
    """
    return _of(path).local()


def updated(path: StoragePath, write: Callable[[Version | None], T]) -> T:
    """Return `write(version)`, which reads the file, and replaces it on condition that it has this version.

    In an object store, which has no locks, this is tried again if another process has replaced the file meanwhile. For
    a local file, which a lock protects, the version is None.

    Raises `ConflictError` if other processes replace the file again and again.
    """
    for _ in range(TRIES - 1):
        with suppress(ConflictError):
            return write(_of(path).version())
    return write(_of(path).version())


def write_text(path: StoragePath, text: str, expected: Version | None = None) -> None:
    """Write `text` to `path` atomically, in UTF-8. `expected` is as for `replacing`.

    Raises `ApeError` if `path` cannot be written.
    """
    write_bytes(path, text.encode(), expected)


def write_bytes(path: StoragePath, content: bytes, expected: Version | None = None) -> None:
    """Write `content` to `path` atomically. `expected` is as for `replacing`.

    Raises `ApeError` if `path` cannot be written.
    """
    with replacing(path, expected) as temporary:
        temporary.write_bytes(content)


def write_json(path: StoragePath, value: Any) -> None:
    """Write `value` to `path` atomically, as indented JSON.

    Raises `ApeError` if `path` cannot be written, and `ValueError` if `value` contains NaN or an infinity.
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def opened(path: StoragePath) -> io.BufferedReader:
    """Open a file for reading. Raises `OSError` if it cannot be read, or is no regular file (a pipe would block)."""
    return _of(path).open()


def source(path: StoragePath) -> Any:
    """Open a file for random access by pyarrow. Raises `OSError` if it cannot be read."""
    return _of(path).source()


def read_bytes(path: StoragePath, limit: int = JSON_BYTES) -> bytes:
    """The content of a file of at most `limit` bytes.

    Raises `OSError` if the file is larger, is no regular file (a pipe would block), or cannot be read.
    """
    return _of(path).read_bytes(limit)


def read_json(path: StoragePath, limit: int = JSON_BYTES) -> Any:
    """The value in a JSON file of at most `limit` bytes.

    Raises `OSError` if the file cannot be read or is too large, and `ValueError` if it is not JSON.
    """
    return from_json(read_bytes(path, limit), allow_inf_nan=False)


def read_toml(path: StoragePath) -> dict[str, Any]:
    """The content of a TOML file of at most `TOML_BYTES`.

    Raises `OSError` if the file cannot be read or is too large, and `ValueError` if it is not TOML.
    """
    return tomllib.loads(read_bytes(path, TOML_BYTES).decode("utf-8-sig"))


def how_to_read(error: BaseException, otherwise: str | None) -> str | None:
    """What to do about a file that cannot be read: `otherwise` if the file itself is wrong.

    A failure of this machine, its disk or its network does not mean that the file is damaged.

    >>> how_to_read(OSError(errno.EMFILE, ""), "train again"), how_to_read(too_large(Path("x"), 1), "train again")
    ('close other programs, or raise the limit of open files (`ulimit -n`)', 'train again')
    """
    if not isinstance(error, OSError) or error.errno in (errno.ENOENT, errno.EINVAL, errno.EISDIR, errno.ENOTDIR, None):
        return otherwise
    return remedy(error, "check its permissions, the disk and the network, and run the same command again")


def sha256(path: StoragePath) -> str:
    """The SHA-256 digest of the bytes of a file, in hexadecimal. Raises `OSError` if it cannot be read."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def map_ordered(do: Callable[[T], U], items: Iterable[T], where: StoragePath) -> Iterator[U]:
    """An iterator over `do(item)` for each item, in the order of the items.

    If `where` is in an object store, where each request has a long latency, several calls run at once in threads.
    """
    at_once = _of(where).at_once
    return map(do, items) if at_once == 1 else _in_threads(do, items, at_once)


def _in_threads(do: Callable[[T], U], items: Iterable[T], at_once: int) -> Iterator[U]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(do, items)


def entries(path: StoragePath) -> list[tuple[str, bool]]:
    """List a folder: pairs of a name and whether it is a folder, sorted; empty if there is no such folder.

    Raises `OSError` if it is no folder, or cannot be read.
    """
    try:
        return sorted((entry.name, entry.is_dir()) for entry in path.iterdir())
    except FileNotFoundError:
        if path.is_symlink():  # it leads nowhere
            raise
        return []


def remove(path: StoragePath) -> None:
    """Remove a file, or a folder with everything in it, if there is one. What a link leads to is not touched.

    Raises `OSError` if that is not possible.
    """
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            remove(entry)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: StoragePath, busy: ApeError, wait: float = 0.1) -> Iterator[None]:
    """Hold `path` as the lock of its folder during the block, as `held` does.

    Temporary files in the folder, and in the folders in it, are of killed processes; they are removed.
    """
    with held(path, busy, wait):
        _of(path).remove_temporary()
        yield


def held(path: StoragePath, busy: ApeError, wait: float = 0.1) -> AbstractContextManager[None]:
    """A context that holds `path` as a lock. Raises `busy` if another process holds it for `wait` seconds.

    In an object store, every process gets the lock. Raises `ApeError` if the lock file cannot be created.
    """
    return _of(path).held(busy, wait)


def is_locked(path: StoragePath) -> bool:
    """Whether some process holds the lock `path` at this moment."""
    return _of(path).is_locked()


def folder(path: StoragePath) -> StoragePath:
    """Create the folder `path` with its parents if necessary, and return it.

    Raises `ApeError` if the folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def is_temporary(name: str) -> bool:
    """Whether this is the name of a temporary file."""
    return _TEMPORARY.fullmatch(name) is not None
