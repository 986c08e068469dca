"""Files that are either whole or absent.

Every artefact is written as `.NAME.tmp` in its own folder (the leading dot keeps it out of every
Parquet reader), flushed to the disk, and renamed. A reader never sees half a file under a final name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ape_cli.errors import ApeError


def folder(path: Path) -> Path:
    """`path` as an existing folder; a clear error where it cannot be one."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


def cannot_write(path: Path, error: OSError) -> ApeError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ApeError(
        f"cannot write {path}",
        got=error.strerror or str(error),
        fix="free some space" if full else "choose a place that you may write to",
    )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; when the block ends well it becomes `path`, else it is removed."""
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sha256(path: Path) -> str:
    """Of the file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, busy: ApeError) -> Iterator[None]:
    """Hold `path` as a lock that ends with the process; `busy` is raised where another holds it."""
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


def is_locked(path: Path) -> bool:
    """Whether some process holds `path` as its lock at this moment."""
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
