"""Paths in an object store, with an interface like `pathlib.Path`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ape_cli.storage._bucket import Bucket, ConflictError, Version

__all__ = ["ConflictError", "RemotePath", "Stat", "Version"]

_BUFFER = 8 << 20  # bytes per request when an object is read sequentially
_FOLDER = "folder"  # stands for a folder where a file has a `Stat`


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

    def is_symlink(self) -> bool:
        """False."""
        return False

    def stat(self) -> Stat:
        """Size and modification time. Raises `FileNotFoundError` if there is no object at this path."""
        return self._listed if isinstance(self._listed, Stat) else _stat(self.bucket.head(self.key))

    def iterdir(self) -> Iterator[RemotePath]:
        """List the folder; the result is empty if the folder does not exist.

        Other programs store an empty object `folder/` for a folder. It is left out. Each path remembers what the
        listing says about it, so `is_file`, `is_dir` and `stat` of it do not ask again.
        """
        folders, objects = self.bucket.list_folder(self.key)
        entries: dict[str, Stat | str] = dict.fromkeys(folders, _FOLDER)
        entries |= {entry["path"]: _stat(entry) for entry in objects if entry["path"] != self.key}
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
        return self.bucket.opened(self.key)

    def read_bytes(self, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        return self.bucket.read(self.key, limit)

    def read_text(self, encoding: str) -> str:
        """The content of the object, decoded with `encoding`."""
        return self.read_bytes().decode(encoding)

    def version(self) -> Version:
        """The version of the object, for a conditional upload."""
        try:
            metadata = self.bucket.head(self.key)
        except FileNotFoundError:
            return "create"
        return {name: metadata[name] for name in ("e_tag", "version") if metadata[name] is not None}

    def upload(self, local: Path, expected: Version | None = None) -> None:
        """Upload a local file as this object. The object appears only when the upload is complete.

        With `expected`, the store carries out the upload only if the object has this version. Such an upload is one
        request, of at most 5 GiB on S3. Raises `ConflictError` if the object has another version, or was removed.
        """
        self.bucket.put(self.key, local, expected)

    def copy(self, target: RemotePath) -> None:
        """Copy the object within its bucket. Raises `FileNotFoundError` if there is none."""
        self.bucket.copy(self.key, target.key)

    def download(self, local: Path) -> None:
        """Download the object to a local file."""
        self.bucket.download(self.key, local)

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object. It need not exist."""
        self.bucket.delete(self.key)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def rmdir(self) -> None:
        """Do nothing: a folder disappears with its last object."""

    def _ask(self) -> Stat | str | None:
        """What is at this path: an object, a folder, or None. Raises `PlaceError` if there is no such bucket."""
        if self.key:
            with suppress(FileNotFoundError):
                return _stat(self.bucket.head(self.key))
        return _FOLDER if self.bucket.is_folder(self.key) else None


def _stat(metadata: Any) -> Stat:
    """Size and modification time from the metadata of an object."""
    return Stat(metadata["size"], int(metadata["last_modified"].timestamp() * 10**6) * 1000)
