"""Find files by name, in a folder or in a tar archive."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Self

from ape_cli.core import budget
from ape_cli.core.errors import ApeError, DataError
from ape_cli.storage import files, folders
from ape_cli.storage.sources import _decompressed

Files = dict[str, Callable[[], bytes]]  # file name -> function that reads it


def in_folder(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Find the `wanted` files in a folder and in its direct subfolders. The result has an entry for each folder.

    Hidden subfolders are skipped. The functions in the result raise `DataError` if a file is too large.
    """
    below = [path / name for name, is_folder in folders.entries(path) if is_folder and not name.startswith(".")]
    return {str(folder): _wanted(folder, wanted) for folder in (path, *below)}


def _wanted(folder: Path, wanted: Collection[str]) -> Files:
    """Find the `wanted` files that lie directly in `folder`."""
    names = (name for name, is_folder in folders.entries(folder) if name in wanted and not is_folder)
    return {name: _bytes_of(folder / name) for name in names}


def _bytes_of(path: Path) -> Callable[[], bytes]:
    """A function that reads the file at `path`, after a check of its size."""

    def read() -> bytes:
        _check_size(str(path), path.stat().st_size)
        try:
            return files.read_bytes(path, budget.MEMBER_BYTES)
        except OSError as error:
            raise DataError(f"cannot read {path}", got=error.strerror, fix="fetch it again") from error

    return read


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive by its first bytes, or is named like one.

    Raises `OSError` if it cannot be read, or is no regular file.
    """
    with files.opened(path) as file:
        head = file.read(512)
    return (
        head.startswith(_decompressed.STARTS)
        or head[257:262] == b"ustar"
        or ".tar" in path.suffixes
        or path.suffix == ".tgz"
    )


def in_tar(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Find the `wanted` files in a tar archive, by folder. The archive is read once, and the files are kept in memory.

    Raises `DataError` if the archive is damaged, or contains a wanted file twice or a file that is too large.
    """
    found: dict[str, Files] = {}
    with path.open("rb") as raw:
        try:
            own = type("_OfThis", (_Member,), {})  # it counts the headers of this archive
            with tarfile.open(fileobj=_decompressed.opened(raw), mode="r:", tarinfo=own) as tar:
                for number, member in enumerate(tar):
                    member.pax_headers = {}  # tarfile keeps a copy of all global headers with each member
                    _check_size(f"{path}: {member.name}", member.size)
                    _check_entries(path, number)
                    check_total(path, member.offset_data + member.size)
                    folder, _, name = member.name.rpartition("/")
                    if name in wanted and member.isreg() and not member.issparse():  # skip links and devices
                        _keep(found.setdefault(f"{path}: {folder}", {}), name, tar, member)
                _to_its_end(path, tar)
        except ApeError:
            raise
        except Exception as error:  # tarfile raises many kinds of exceptions for damaged archives
            raise DataError(
                f"cannot read {path} as a tar archive",
                got=f"{str(error)[:200]}; it was not read successfully",
                allowed="a complete archive, as it is published",
                fix="fetch it again",
            ) from error
    return found


class _Member(tarfile.TarInfo):
    """A member of an archive, whose long names and extended headers are limited: tarfile reads them into memory."""

    global_bytes = all_bytes = 0  # the extended headers so far: those that hold for all members, and all of them

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header. Raises `DataError` if it announces too long a name, or too large extended headers."""
        made = super().frombuf(buf, encoding, errors)
        if made.type in _HEADERS:
            cls.all_bytes += made.size
            cls.global_bytes += made.size if made.type == tarfile.XGLTYPE else 0
            for what, got, size, most in (
                ("a name in the archive is too long", "a header", made.size, budget.HEADER_BYTES),
                ("the archive is no CIFAR", "global headers", cls.global_bytes, budget.HEADER_BYTES),
                ("the archive is no CIFAR", "headers", cls.all_bytes, budget.HEADERS_BYTES),
            ):
                if size > most:
                    told = f"{got} of {size:,} bytes"
                    raise DataError(what, got=told, allowed=f"{most:,}", fix="fetch it again")
        return made


_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


def _keep(there: Files, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Read one member of the archive into `there`. Raises `DataError` if its name occurs twice in a folder."""
    if name in there:
        raise DataError("a file occurs twice in an archive", got=member.name, allowed="once", fix="fetch it again")
    file = tar.extractfile(member)
    assert file is not None  # it is a regular file
    content = file.read()
    there[name] = lambda: content


def _to_its_end(path: Path, tar: tarfile.TarFile) -> None:
    """Read past the last member to the end, where compressed archives store their checksum."""
    assert tar.fileobj is not None
    while tar.fileobj.read(2**20):
        check_total(path, tar.fileobj.tell())


def _check_entries(path: Path, before: int) -> None:
    """Raise `DataError` if an archive has too many entries. `before` is the number of those before this one."""
    if before >= budget.ARCHIVE_ENTRIES:
        got, allowed = f"{before + 1:,} files or more", f"{budget.ARCHIVE_ENTRIES:,}"
        raise DataError(f"{path} is too large for CIFAR", got=got, allowed=allowed, fix="fetch it again")


def check_total(path: Path, size: int) -> None:
    """Raise `DataError` if an archive that is decompressed, or the files of a folder, have too many bytes together."""
    if size > budget.ARCHIVE_BYTES:
        got, allowed = f"{size:,} bytes or more", f"{budget.ARCHIVE_BYTES:,} bytes"
        raise DataError(f"{path} is too large for CIFAR", got=got, allowed=allowed, fix="fetch it again")


def _check_size(what: str, size: int) -> None:
    """Raise `DataError` if `size`, in bytes, is larger than any file of CIFAR."""
    if size > budget.MEMBER_BYTES:
        raise DataError(
            f"a file is too large for CIFAR: {what}",
            got=f"{size:,} bytes",
            allowed=f"{budget.MEMBER_BYTES:,}",
            fix="fetch it again",
        )
