"""Files that are either whole or absent.

Every artefact is written as `.NAME.tmp` in its own folder (the leading dot keeps it out of every
Parquet reader), flushed to the disk, and renamed. A reader never sees half a file under a final name.
In an object store (`place.py`) it is written to this machine's temporary folder first, and uploaded whole.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ape_cli.core.errors import ApeError
from ape_cli.storage import locks
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath

_AT_ONCE = 16  # requests to an object store
T = TypeVar("T")
U = TypeVar("U")


def folder(path: StoragePath) -> StoragePath:
    """`path` as an existing folder; a clear error where it cannot be one."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def cannot_write(path: StoragePath, error: OSError) -> ApeError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ApeError(
        f"cannot write {path}",
        got=error.strerror or str(error),
        fix="free some space" if full else "choose a place that you may write to",
    )


@contextmanager
def replacing(path: StoragePath) -> Iterator[Path]:
    """A temporary name beside `path`; when the block ends well it becomes `path`, else it is removed."""
    if isinstance(path, RemotePath):
        with _uploading(path) as temporary:
            yield temporary
        return
    if not path.name or path.is_dir():
        raise cannot_write(path, IsADirectoryError(errno.EISDIR, "it is a folder"))
    temporary = path.with_name(f".{path.name}.tmp")
    folder(path.parent)
    try:
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())  # some libraries create files for their owner alone
            temporary.replace(path)
        except OSError as error:
            raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _uploading(path: RemotePath) -> Iterator[Path]:
    with _elsewhere(path) as temporary:
        try:
            yield temporary
        except OSError as error:  # this machine's
            raise cannot_write(temporary, error) from error
        path.upload(temporary)


@contextmanager
def local(path: StoragePath) -> Iterator[Path]:
    """A file of this machine with the bytes of `path`: itself, or a copy that goes with the block."""
    if isinstance(path, Path):
        yield path
        return
    with _elsewhere(path) as copy:
        path.download(copy)
        yield copy


@contextmanager
def _elsewhere(path: RemotePath) -> Iterator[Path]:
    """A file's name in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="ape-") as here:
        yield Path(here) / path.name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: StoragePath, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: StoragePath, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: StoragePath, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sha256(path: StoragePath) -> str:
    """Of the file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entries(folder: StoragePath) -> list[tuple[str, bool]]:
    """What is in a folder, by name, and whether it is a folder itself; nothing where there is none."""
    if isinstance(folder, RemotePath):
        return sorted((entry.name, entry.is_dir()) for entry in folder.iterdir())
    if not folder.is_dir():
        return []
    with os.scandir(folder) as found:
        return sorted((entry.name, entry.is_dir()) for entry in found)


def each(do: Callable[[T], U], items: Iterable[T], where: StoragePath) -> Iterator[U]:
    """`do` of each item, in their order. In an object store, where every answer takes its time, several at once."""
    if not isinstance(where, RemotePath):
        yield from map(do, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[U]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for item in items:
            waiting.append(pool.submit(do, item))
            if len(waiting) == 2 * _AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def locked(path: StoragePath, busy: ApeError) -> Iterator[None]:
    """Hold `path` as a lock that ends with the process; `busy` is raised where another holds it.

    In an object store it is a lease (`lease.py`), which a process that was killed holds for a while longer.
    """
    if isinstance(path, RemotePath):
        with locks.held(path, busy):
            yield
        return
    folder(path.parent)
    try:
        held = _acquire(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    if held is None:
        raise busy
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


def _acquire(path: Path) -> int | None:
    """The locked file, open; None if another process keeps it. `is_locked` may hold it for an instant."""
    for _ in range(10):
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                return handle  # and not a file that its last holder has just removed
        except BlockingIOError:
            time.sleep(0.01)
        os.close(handle)
    return None


def is_locked(path: StoragePath) -> bool:
    """Whether some process holds `path` as its lock at this moment."""
    if isinstance(path, RemotePath):
        return locks.is_held(path)
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
