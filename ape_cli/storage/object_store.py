"""An address in an object store, with pathlib's names."""

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

_BUFFER = 8 << 20  # bytes of a request where a whole object is read from its beginning


class Stat(NamedTuple):
    """Of an object."""

    st_size: int  # bytes
    st_mtime_ns: int  # by the store's clock


@dataclass(frozen=True)
class RemotePath:
    """An address; a method is what pathlib's of the same name is, as far as an object store has it.

    All that fails for another reason than a missing object is a `PlaceError`.
    """

    bucket: Bucket
    path: str  # the bucket's name, and the object's behind it
    _found: Any = field(default=None, compare=False, repr=False)  # by `iterdir`, so that nobody asks again

    def __str__(self) -> str:
        return f"{self.bucket.kind}://{self.path}" + (f"?{self.bucket.query}" if self.bucket.query else "")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.bucket, self.path.rpartition("/")[0] or self.path)

    def __truediv__(self, more: str) -> RemotePath:
        return RemotePath(self.bucket, "/".join([self.path, *(part for part in more.split("/") if part)]))

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def resolve(self) -> RemotePath:
        return self

    def exists(self) -> bool:
        return self._kind(self._ask()) != "NotFound"

    def is_file(self) -> bool:
        return self._kind(self._found or self._ask()) == "File"

    def is_dir(self) -> bool:
        return self._kind(self._found or self._ask()) == "Directory"

    def stat(self) -> Stat:
        about = self._found or self._ask()
        if self._kind(about) != "File":
            raise self._missing()
        return Stat(about.size, about.mtime_ns)

    def iterdir(self) -> Iterator[RemotePath]:
        """What is in it, nothing if it is not there; each as it is now, even if it is asked later."""
        from pyarrow.fs import FileInfo, FileSelector, FileType

        all_of_it = self.bucket.kind == "gs"  # of a folder's own names, pyarrow leaves out those that go on there
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
        """`*` and the like within a name; no `**`."""
        first, _, rest = pattern.partition("/")
        for entry in (e for e in self.iterdir() if fnmatch(e.name, first)):
            if not rest:
                yield entry
            elif entry.is_dir():
                yield from entry.glob(rest)

    def open(self, mode: str = "rb") -> Any:
        """To read it once, from its beginning."""
        assert mode == "rb"
        with explained(self.bucket):
            return self.bucket.system.open_input_stream(self.path, compression=None, buffer_size=_BUFFER)

    def opened(self) -> Any:
        """To read parts of it, each by a request for its range."""
        with explained(self.bucket):
            return self.bucket.system.open_input_file(self.path)

    def read_bytes(self) -> bytes:
        with explained(self.bucket), self.bucket.system.open_input_file(self.path) as file:
            return file.read()

    def read_text(self, encoding: str) -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        with explained(self.bucket), self.bucket.system.open_output_stream(self.path) as file:
            file.write(data)

    def upload(self, local: Path) -> None:
        """All of a file as this object. It is there when it is complete, and not before."""
        self._guard()
        self._copy(str(local), None, self.path, self.bucket.system)
        if (size := self._ask().size) != local.stat().st_size:
            raise PlaceError(f"{self} was not stored whole", got=f"{size} bytes", fix="try again")
        self._guard()

    def _guard(self) -> None:
        for guard in self.bucket.guards:
            guard(self)

    def download(self, local: Path) -> None:
        self._copy(self.path, self.bucket.system, str(local), None)

    def _copy(self, source: str, from_system: Any, target: str, to_system: Any) -> None:
        """In Arrow's own code, where no Ctrl-C comes in between: closed there, half an object would be a whole one."""
        from pyarrow.fs import LocalFileSystem, copy_files

        disk = LocalFileSystem()
        with explained(self.bucket):
            copy_files(source, target, source_filesystem=from_system or disk, destination_filesystem=to_system or disk)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with explained(self.bucket):
                self.bucket.system.delete_file(self.path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Nothing: a folder is there with what is in it."""

    def rmdir(self) -> None:
        """Nothing, if it is empty: pyarrow removes what is left of it only with all that others may write meanwhile."""
        if self.path == self.bucket.name or any(self.iterdir()):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))
        if not self.exists():
            raise self._missing()

    def _missing(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def _ask(self) -> Any:
        with explained(self.bucket):
            return self.bucket.system.get_file_info(self.path)

    def _kind(self, about: Any) -> str:
        kind: str = about.type.name
        if kind == "NotFound":
            self.bucket.check()
        return kind
