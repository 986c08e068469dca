"""Files by their names, in a folder or in a tar archive."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path

from ape_cli.core.errors import DataError
from ape_cli.storage import files

Files = dict[str, Callable[[], bytes]]  # what reads each, by its name

_LARGEST = 256 * 2**20  # bytes; the largest file of a CIFAR has 154 million
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")  # the first bytes of gzip, bzip2, xz


def in_folder(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Those of the wanted files that lie in a folder and in its direct folders, by folder."""
    below = [path / name for name, is_folder in files.entries(path) if is_folder and not name.startswith(".")]
    return {str(folder): _wanted(folder, wanted) for folder in (path, *below)}


def _wanted(folder: Path, wanted: Collection[str]) -> Files:
    names = (name for name, is_folder in files.entries(folder) if name in wanted and not is_folder)
    return {name: _bytes_of(folder / name) for name in names}


def _bytes_of(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        _check_size(str(path), path.stat().st_size)
        return path.read_bytes()

    return read


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, or means to be one by its name."""
    with path.open("rb") as file:
        head = file.read(512)
    return head.startswith(_COMPRESSED) or head[257:262] == b"ustar" or ".tar" in path.suffixes or path.suffix == ".tgz"


def in_tar(path: Path, wanted: Collection[str]) -> dict[str, Files]:
    """Those of the wanted files that are in a tar archive, by folder. Read once from end to end, into memory."""
    found: dict[str, Files] = {}
    with path.open("rb") as raw:
        try:
            with tarfile.open(fileobj=raw, mode="r:*") as tar:
                for member in tar:
                    _check_size(f"{path}: {member.name}", member.size)
                    folder, _, name = member.name.rpartition("/")
                    if name in wanted and member.isreg():  # neither a link nor a device
                        _keep(found.setdefault(f"{path}: {folder}", {}), name, tar, member)
                _to_its_end(tar)
        except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(
                f"cannot read {path} as a tar archive",
                got=str(error).partition(":\n")[0],  # without what each kind of compression has to say
                allowed="a whole one, as it is published",
                fix="fetch it again",
            ) from error
    return found


def _keep(there: Files, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    if name in there:
        raise DataError("a file stands twice in an archive", got=member.name, allowed="once", fix="fetch it again")
    file = tar.extractfile(member)
    assert file is not None  # it is a regular file
    content = file.read()
    there[name] = lambda: content


def _to_its_end(tar: tarfile.TarFile) -> None:
    """Past the last member, where the checksum of what is compressed stands."""
    assert tar.fileobj is not None
    while tar.fileobj.read(2**20):
        pass


def _check_size(what: str, size: int) -> None:
    if size > _LARGEST:
        raise DataError(
            f"too large for a file of a CIFAR: {what}",
            got=f"{size:,} bytes",
            allowed=f"{_LARGEST:,}",
            fix="fetch it again",
        )
