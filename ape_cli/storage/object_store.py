"""Paths in an object store, with an interface like `pathlib.Path`."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ape_cli.core.errors import ApeError
from ape_cli.storage import _requests
from ape_cli.storage._bucket import Bucket, Guard

_BUFFER = 8 << 20  # bytes per request when an object is read sequentially
_LARGEST = 5 << 30  # bytes; S3 takes no more in one request, and only one request can have a condition
_TRIES = 4  # uploads of one object, if another process writes it too
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
    _listed: Stat | str | None = field(default=None, compare=False, repr=False)  # what `iterdir` has found here

    def __str__(self) -> str:
        """The address, including its options, as a user would write it."""
        return f"{self.bucket.kind}://{self.path}" + (f"?{self.bucket.query}" if self.bucket.query else "")

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
        if self._listed == _FOLDER:
            raise self._missing()
        if isinstance(self._listed, Stat):
            return self._listed
        return _stat(_requests.head(self.bucket, self.key))

    def iterdir(self) -> Iterator[RemotePath]:
        """List the folder; the result is empty if the folder does not exist.

        Each path remembers what the listing says about it, so `is_file`, `is_dir` and `stat` of it do not ask again.
        """
        folders, objects = _requests.listing(self.bucket, self.key)
        found: dict[str, Stat | str] = dict.fromkeys(folders, _FOLDER)
        found |= {about["path"]: _stat(about) for about in objects}
        if not found:
            self.bucket.check()
        return (RemotePath(self.bucket, f"{self.bucket.name}/{key}", about) for key, about in found.items())

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
        assert mode == "rb"
        return io.BufferedReader(self.opened(), _BUFFER)

    def opened(self) -> io.RawIOBase:
        """Open the object for random access. Each read is a request for a range of bytes."""
        return _requests.Reader(self.bucket, self.key)

    def read_bytes(self, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        return _requests.read(self.bucket, self.key, limit)[0]

    def read_text(self, encoding: str) -> str:
        """The content of the object, decoded with `encoding`."""
        return self.read_bytes().decode(encoding)

    def upload(self, local: Path, taken: Callable[[], None] = lambda: None) -> None:
        """Upload a local file as this object. The object appears only when the upload is complete.

        `taken` is called before the upload, when the file is open or in memory. It may remove the file.

        In a folder with a guard, an object is replaced only if it is the version that this process has seen last, so
        that an upload of another process which arrives late is rejected by the store. Such an upload is one request of
        at most 5 GiB, and it holds the file in memory.

        Raises `ApeError` if the guard says that this process may not write here any more, or if the file is too large.
        """
        guard = self._guard()
        if guard is None:
            with local.open("rb") as file:
                taken()
                _requests.upload(self.bucket, self.key, file)
        else:
            self._upload_guarded(local, guard, taken)

    def _upload_guarded(self, local: Path, guard: Guard, taken: Callable[[], None]) -> None:
        """Upload a file if `guard` allows it. Raises `ApeError` if it does not, or if the file is too large."""
        size = local.stat().st_size
        if size > _LARGEST:
            raise ApeError(
                "the file is too large for one upload, and uploads in parts cannot exclude a second writer",
                got=f"{size:,} bytes for {self}",
                allowed=f"{_LARGEST:,} bytes (5 GiB)",
                fix="use a folder in place of the object store, or make it smaller",
            )
        content = local.read_bytes()
        taken()
        for _ in range(_TRIES):
            if self.path not in guard.versions:
                guard.versions[self.path] = _requests.version(self.bucket, self.key)
            guard.check()  # at a time when the version is known, so that it is not the one of a successor
            try:
                expected = guard.versions[self.path]
                guard.versions[self.path] = _requests.replace(self.bucket, self.key, content, expected)
                guard.check()
                return
            except _requests.ConflictError:
                guard.versions.pop(self.path)
                guard.renew()  # if nobody else may write here, then an old upload of another process has arrived
        raise ApeError(
            "another process writes the same object", got=str(self), fix="stop it, and run the same command again"
        )

    def download(self, local: Path) -> None:
        """Download the object to a local file."""
        _requests.download(self.bucket, self.key, local)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object, whatever its version is; a removal that arrives late can hit the object of a successor.

        The guard of its folder is asked before each attempt, and not by the store.

        Raises `FileNotFoundError` if it does not exist, unless `missing_ok` is set, and `ApeError` if the guard of its
        folder says that this process may not write here any more.
        """
        if not missing_ok:
            _requests.head(self.bucket, self.key)
        guard = self._guard()
        if guard is None:
            _requests.delete(self.bucket, self.key)
        else:
            guard.versions.pop(self.path, None)
            _requests.delete(self.bucket, self.key, check=guard.check)

    def _guard(self) -> Guard | None:
        """The guard of the folder in which the object lies, if it has one."""
        return next((guard for guard in self.bucket.guards if guard.covers(self.path)), None)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def rmdir(self) -> None:
        """Check that the folder is empty, and do nothing else: an empty folder does not exist.

        Raises `OSError` (ENOTEMPTY) if the folder is not empty or is the bucket itself.
        """
        if not self.key or any(self.iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))

    def _missing(self) -> FileNotFoundError:
        """The error for an object that does not exist."""
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def _ask(self) -> Stat | str | None:
        """What is at this path: an object, a folder, or None.

        Raises `PlaceError` if nothing is found and the bucket does not exist either.
        """
        if self.key:
            with suppress(FileNotFoundError):
                return _stat(_requests.head(self.bucket, self.key))
        if _requests.is_folder(self.bucket, self.key):
            return _FOLDER
        self.bucket.check()
        return None


def _stat(about: Any) -> Stat:
    """Size and modification time from the metadata of an object."""
    return Stat(about["size"], int(about["last_modified"].timestamp() * 10**6) * 1000)
