"""Find files by name, in a folder or in a tar archive."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path

from ape_cli.core.errors import DataError
from ape_cli.storage import files

Files = dict[str, Callable[[], bytes]]  # file name -> function that reads it

_LARGEST = 256 * 2**20  # bytes; the largest file of CIFAR has 154 million
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")  # the first bytes of gzip, bzip2, xz


def in_folder(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Find the `wanted` files in a folder and in its direct subfolders. The result has an entry for each folder.

    Hidden subfolders are skipped. The functions in the result raise `DataError` if a file is too large.
    """
    below = [path / name for name, is_folder in files.entries(path) if is_folder and not name.startswith(".")]
    return {str(folder): _wanted(folder, wanted) for folder in (path, *below)}


def _wanted(folder: Path, wanted: Collection[str]) -> Files:
    """Find the `wanted` files that lie directly in `folder`."""
    names = (name for name, is_folder in files.entries(folder) if name in wanted and not is_folder)
    return {name: _bytes_of(folder / name) for name in names}


def _bytes_of(path: Path) -> Callable[[], bytes]:
    """A function that reads the file at `path`, after a check of its size."""

    def read() -> bytes:
        _check_size(str(path), path.stat().st_size)
        return path.read_bytes()

    return read


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive by its first bytes, or is named like one."""
    with path.open("rb") as file:
        head = file.read(512)
    return head.startswith(_COMPRESSED) or head[257:262] == b"ustar" or ".tar" in path.suffixes or path.suffix == ".tgz"


def in_tar(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Find the `wanted` files in a tar archive, by folder. The archive is read once, and the files are kept in memory.

    Raises `DataError` if the archive is damaged, or contains a wanted file twice or a file that is too large.
    """
    found: dict[str, Files] = {}
    with path.open("rb") as raw:
        try:
            with tarfile.open(fileobj=raw, mode="r:*") as tar:
                for member in tar:
                    _check_size(f"{path}: {member.name}", member.size)
                    folder, _, name = member.name.rpartition("/")
                    if name in wanted and member.isreg():  # skip links and devices
                        _keep(found.setdefault(f"{path}: {folder}", {}), name, tar, member)
                _to_its_end(tar)
        except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(
                f"cannot read {path} as a tar archive",
                got=str(error).partition(":\n")[0],  # without the messages of all the compression formats tried
                allowed="a complete archive, as it is published",
                fix="fetch it again",
            ) from error
    return found


def _keep(there: Files, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """Read one member of the archive into `there`. Raises `DataError` if its name occurs twice in a folder."""
    if name in there:
        raise DataError("a file occurs twice in an archive", got=member.name, allowed="once", fix="fetch it again")
    file = tar.extractfile(member)
    assert file is not None  # it is a regular file
    content = file.read()
    there[name] = lambda: content


def _to_its_end(tar: tarfile.TarFile) -> None:
    """Read past the last member to the end, where compressed archives store their checksum."""
    assert tar.fileobj is not None
    while tar.fileobj.read(2**20):
        pass


def _check_size(what: str, size: int) -> None:
    """Raise `DataError` if `size`, in bytes, is larger than any file of CIFAR."""
    if size > _LARGEST:
        raise DataError(
            f"a file is too large for CIFAR: {what}",
            got=f"{size:,} bytes",
            allowed=f"{_LARGEST:,}",
            fix="fetch it again",
        )
