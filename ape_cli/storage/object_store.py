"""Paths in an object store, with an interface like `pathlib.Path`."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias

from ape_cli.storage._bucket import Bucket, ConflictError, conflict, explained

__all__ = ["ConflictError", "RemotePath", "Stat", "Version"]

_BUFFER = 8 << 20  # bytes per request when an object is read sequentially
_SMALL = 1 << 20  # bytes of a file whose upload is a small request
_FOLDER = "folder"  # stands for a folder where a file has a `Stat`
# the version that an object has, for a conditional write; `create` if there is no object
Version: TypeAlias = dict[str, Any] | Literal["create"]


class Stat(NamedTuple):
    """Size and modification time of an object."""

    st_size: int  # bytes
    st_mtime_ns: int  # by the store's clock


@dataclass(frozen=True)
class RemotePath:
    """A path in an object store. Each method does what the `pathlib.Path` method of the same name does.

    Differences that object stores require are described at the methods.

    Raises `PlaceError` from every method that sends a request, if the request fails for another reason than a missing
    object. A missing object is a `FileNotFoundError`, as in pathlib.
    """

    bucket: Bucket
    path: str  # the bucket's name, "/", and the name of the object
    _listed: Stat | str | None = field(default=None, compare=False, repr=False)  # as `iterdir` has listed it

    def __str__(self) -> str:
        """The address, including its options, as a user would write it."""
        return f"{self.bucket}/{self.key}".rstrip("/") + (f"?{self.bucket.query}" if self.bucket.query else "")

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The file extension of the last component, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The path without its last component; the bucket is its own parent."""
        return RemotePath(self.bucket, self.path.rpartition("/")[0] or self.path)

    def __truediv__(self, more: str) -> RemotePath:
        """Append the components of `more`."""
        return RemotePath(self.bucket, "/".join([self.path, *(part for part in more.split("/") if part)]))

    def with_name(self, name: str) -> RemotePath:
        """The path with its last component replaced by `name`."""
        return self.parent / name

    def resolve(self) -> RemotePath:
        """The path itself: addresses are always absolute."""
        return self

    @property
    def key(self) -> str:
        """The name of the object in its bucket."""
        return self.path.partition("/")[2]

    def exists(self) -> bool:
        """Whether there is an object at this path, or one below it."""
        return self._ask() is not None

    def is_file(self) -> bool:
        """Whether there is an object at this path."""
        return isinstance(self._listed or self._ask(), Stat)

    def is_dir(self) -> bool:
        """Whether the names of objects continue below this path."""
        return (self._listed or self._ask()) == _FOLDER

    def stat(self) -> Stat:
        """Size and modification time. Raises `FileNotFoundError` if there is no object at this path."""
        return self._listed if isinstance(self._listed, Stat) else _stat(self._head())

    def iterdir(self) -> Iterator[RemotePath]:
        """List the folder; the result is empty if the folder does not exist.

        Other programs store an empty object `folder/` for a folder. It is left out. Each path remembers what the
        listing says about it, so `is_file`, `is_dir` and `stat` of it do not ask again.
        """
        import obstore

        with explained(self.bucket):
            listing = obstore.list_with_delimiter(self.bucket.store, self.key or None)
        entries: dict[str, Stat | str] = dict.fromkeys(listing["common_prefixes"], _FOLDER)
        entries |= {entry["path"]: _stat(entry) for entry in listing["objects"] if entry["path"] != self.key}
        return (RemotePath(self.bucket, f"{self.bucket.name}/{key}", entry) for key, entry in entries.items())

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Find paths that match `pattern`. Wildcards match within one component; `**` is not supported."""
        first, _, rest = pattern.partition("/")
        for entry in (e for e in self.iterdir() if fnmatch(e.name, first)):
            if not rest:
                yield entry
            elif entry.is_dir():
                yield from entry.glob(rest)

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Open the object for sequential reads, in binary mode."""
        return io.BufferedReader(self.opened(), _BUFFER)

    def opened(self) -> io.RawIOBase:
        """Open the object for random access. Each read is a request for a range of bytes."""
        return _Reader(self)

    def read_bytes(self, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        import obstore

        with explained(self.bucket, self.key):
            answer = obstore.get(self.bucket.store, self.key)
            if limit is not None and answer.meta["size"] > limit:
                raise OSError(errno.EINVAL, f"it has more than {limit:,} bytes", str(self))
            return bytes(answer.bytes())

    def read_text(self, encoding: str) -> str:
        """The content of the object, decoded with `encoding`."""
        return self.read_bytes().decode(encoding)

    def version(self) -> Version:
        """The version of the object, for a conditional upload."""
        try:
            entry = self._head()
        except FileNotFoundError:
            return "create"
        return {name: entry[name] for name in ("e_tag", "version") if entry[name] is not None}

    def upload(self, local: Path, expected: Version | None = None) -> None:
        """Upload a local file as this object. The object appears only when the upload is complete.

        With `expected`, the store carries out the upload only if the object has this version. Such an upload is one
        request, of at most 5 GiB on S3. Raises `ConflictError` if the object has another version, or was removed.
        """
        import obstore

        self.bucket.check_writable()
        options: Any = {} if expected is None else {"mode": expected, "use_multipart": False}
        store = self.bucket.store if local.stat().st_size <= _SMALL else self.bucket.patient_store
        replaces = isinstance(expected, dict)
        try:
            with explained(self.bucket, self.key if replaces else ""):
                obstore.put(store, self.key, local, **options)
        except FileNotFoundError as error:
            raise conflict(self.bucket) from error

    def copy(self, target: RemotePath) -> None:
        """Copy the object within its bucket. The store does so itself. Raises `FileNotFoundError` if there is none."""
        import obstore

        target.bucket.check_writable()
        with explained(self.bucket, self.key):
            obstore.copy(self.bucket.patient_store, self.key, target.key)

    def download(self, local: Path) -> None:
        """Download the object to a local file."""
        import obstore

        with explained(self.bucket, self.key), local.open("wb") as file:
            for chunk in obstore.get(self.bucket.store, self.key):
                file.write(chunk)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object. It need not exist."""
        import obstore

        self.bucket.check_writable()
        with suppress(FileNotFoundError), explained(self.bucket, self.key):  # Google's store says so, S3 does not
            obstore.delete(self.bucket.store, self.key)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def rmdir(self) -> None:
        """Do nothing: a folder disappears with its last object."""

    def _head(self) -> Any:
        """The metadata of the object. Raises `FileNotFoundError` if there is no such object."""
        import obstore

        with explained(self.bucket, self.key):
            return obstore.head(self.bucket.store, self.key)

    def _ask(self) -> Stat | str | None:
        """What is at this path: an object, a folder, or None. Raises `PlaceError` if there is no such bucket."""
        import obstore

        if self.key:
            with suppress(FileNotFoundError):
                return _stat(self._head())
        with explained(self.bucket):
            page = next(iter(obstore.list(self.bucket.store, self.key or None)), [])
        return _FOLDER if any(entry["path"] != self.key for entry in page) else None


def _stat(entry: Any) -> Stat:
    """Size and modification time from the metadata of an object."""
    return Stat(entry["size"], int(entry["last_modified"].timestamp() * 10**6) * 1000)


class _Reader(io.RawIOBase):
    """An object that is read by ranges of bytes. All of them are of the same version."""

    def __init__(self, path: RemotePath) -> None:
        """Ask for the size and the version of the object. Raises `FileNotFoundError` if it does not exist."""
        self._path, self._at = path, 0
        entry = path._head()
        self._size, self._tag = entry["size"], entry["e_tag"]

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read, in bytes from the start, the current position or the end."""
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into `buffer`, and return their number: all that fit, or all that are left.

        Raises an error if the request fails, or if the object was replaced since it was opened.
        """
        import obstore

        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        options: Any = {"range": (self._at, end), "if_match": self._tag}
        bucket, key = self._path.bucket, self._path.key
        with explained(bucket, key):
            data = obstore.get(bucket.store, key, options=options).bytes()
        buffer[: len(data)] = memoryview(data)
        self._at += len(data)
        return len(data)
