"""Paths in an object store, with an interface like `pathlib.Path`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ape_cli.core.errors import PlaceError
from ape_cli.storage._bucket import Bucket, explained

_BUFFER = 8 << 20  # bytes per request when an object is read sequentially


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
    _found: Any = field(default=None, compare=False, repr=False)  # file information from `iterdir`

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

    def exists(self) -> bool:
        """Whether there is an object at this path, or one below it."""
        return self._kind(self._ask()) != "NotFound"

    def is_file(self) -> bool:
        """Whether there is an object at this path."""
        return self._kind(self._found or self._ask()) == "File"

    def is_dir(self) -> bool:
        """Whether the names of objects continue below this path."""
        return self._kind(self._found or self._ask()) == "Directory"

    def stat(self) -> Stat:
        """Size and modification time. Raises `FileNotFoundError` if there is no object at this path."""
        about = self._found or self._ask()
        if self._kind(about) != "File":
            raise self._missing()
        return Stat(about.size, about.mtime_ns)

    def iterdir(self) -> Iterator[RemotePath]:
        """List the folder; the result is empty if the folder does not exist.

        Each path remembers the file information of the listing, so `is_file`, `is_dir` and `stat` of it do not ask
        again.
        """
        from pyarrow.fs import FileInfo, FileSelector, FileType

        all_of_it = self.bucket.kind == "gs"  # a plain listing of pyarrow omits the subfolders
        with explained(self.bucket):
            selector = FileSelector(self.path, allow_not_found=True, recursive=all_of_it)
            listed = self.bucket.system.get_file_info(selector)
        if not listed:
            self.bucket.check()
        found = {}
        for about in listed:
            first, more, _ = about.path.removeprefix(f"{self.path}/").partition("/")
            path = f"{self.path}/{first}"
            found[path] = FileInfo(path, FileType.Directory) if more else about
        return (RemotePath(self.bucket, path, about) for path, about in found.items())

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Find paths that match `pattern`. Wildcards match within one component; `**` is not supported."""
        first, _, rest = pattern.partition("/")
        for entry in (e for e in self.iterdir() if fnmatch(e.name, first)):
            if not rest:
                yield entry
            elif entry.is_dir():
                yield from entry.glob(rest)

    def open(self, mode: str = "rb") -> Any:
        """Open the object for one sequential read, in binary mode."""
        assert mode == "rb"
        with explained(self.bucket):
            return self.bucket.system.open_input_stream(self.path, compression=None, buffer_size=_BUFFER)

    def opened(self) -> Any:
        """Open the object for random access. Each read is a request for a range of bytes."""
        with explained(self.bucket):
            return self.bucket.system.open_input_file(self.path)

    def read_bytes(self, limit: int | None = None) -> bytes:
        """The content of the object. Raises `OSError` if it has more than `limit` bytes."""
        with explained(self.bucket), self.bucket.system.open_input_file(self.path) as file:
            if limit is None or file.size() <= limit:
                return file.read()
        raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", str(self))

    def read_text(self, encoding: str) -> str:
        """The content of the object, decoded with `encoding`."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Write `data` as this object. The guards of the bucket are not called."""
        with explained(self.bucket), self.bucket.system.open_output_stream(self.path) as file:
            file.write(data)

    def upload(self, local: Path) -> None:
        """Upload a local file as this object. The object appears only when the upload is complete.

        Raises `PlaceError` if the stored object has another size than the file. The guards of the bucket are called
        before and after the upload, and may raise `ApeError`.
        """
        self._guard()
        self._copy(str(local), None, self.path, self.bucket.system)
        if (size := self._ask().size) != local.stat().st_size:
            raise PlaceError(f"{self} was not stored completely", got=f"{size} bytes", fix="try again")
        self._guard()

    def _guard(self) -> None:
        """Call all guards of the bucket with this path."""
        for guard in self.bucket.guards:
            guard(self)

    def download(self, local: Path) -> None:
        """Download the object to a local file."""
        self._copy(self.path, self.bucket.system, str(local), None)

    def _copy(self, source: str, from_system: Any, target: str, to_system: Any) -> None:
        """Copy between the local disk and the object store within Arrow's own code.

        A KeyboardInterrupt cannot interrupt Arrow's code. If it interrupted a Python loop, the output stream would be
        closed, and the store would keep half an object as a complete one.
        """
        from pyarrow.fs import LocalFileSystem, copy_files

        disk = LocalFileSystem()
        with explained(self.bucket):
            copy_files(source, target, source_filesystem=from_system or disk, destination_filesystem=to_system or disk)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object. Raises `FileNotFoundError` if it does not exist, unless `missing_ok` is set."""
        try:
            with explained(self.bucket):
                self.bucket.system.delete_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def rmdir(self) -> None:
        """Check that the folder is empty, and do nothing else.

        pyarrow can remove the rest of an empty folder only together with everything that other processes write into it
        meanwhile.

        Raises `OSError` (ENOTEMPTY) if the folder is not empty or is the bucket itself, and `FileNotFoundError` if it
        does not exist.
        """
        if self.path == self.bucket.name or any(self.iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))
        if not self.exists():
            raise self._missing()

    def _missing(self) -> FileNotFoundError:
        """The error for an object that does not exist."""
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def _ask(self) -> Any:
        """Request the file information of this path from the store."""
        with explained(self.bucket):
            return self.bucket.system.get_file_info(self.path)

    def _kind(self, about: Any) -> str:
        """The name of the file type in `about`.

        Raises `PlaceError` if nothing is found and the bucket does not exist either.
        """
        kind: str = about.type.name
        if kind == "NotFound":
            self.bucket.check()
        return kind
