"""CIFAR-10 and CIFAR-100 in their binary version, as an archive or as a folder with its files.

Source: https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009).

A record has 1 byte for the label (CIFAR-100: 2 bytes, coarse then fine) and 3,072 bytes for the pixels: a red, a green
and a blue plane, each 32x32 and stored row by row. An archive must have the published MD5, so its content is known
before it is unpacked. The Python version consists of pickles and is not read.

Deviation: in a folder, a batch may have any number of records, not only 10,000 or 50,000.

Shapes: R images.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from ape_cli.core.errors import DataError
from ape_cli.storage import files
from ape_cli.storage.sources._source import ImageSource, LabelledImages, choose, source

_PIXELS = 3 * 32 * 32
_ARCHIVE_BYTES = 256 * 2**20  # the published archives have 170 million
_FILE_BYTES = 160 * 2**20  # the largest published file has 155 million
_ARCHIVES = "cifar-10-binary.tar.gz or cifar-100-binary.tar.gz"
_DOWNLOAD = f"download {_ARCHIVES} from https://www.cs.toronto.edu/~kriz/cifar.html"
_PICKLES = ("data_batch_1", "train")  # files of the Python versions


@dataclass(frozen=True)
class _Version:
    """The binary version of CIFAR-10 or CIFAR-100."""

    name: str
    md5: str  # of the published archive
    train: tuple[str, ...]  # names of the files of the training split
    test: str
    labels: dict[str, tuple[int, str]]  # label -> index of its byte in a record, and the file that names its classes

    @property
    def files(self) -> list[str]:
        """The names of all files of this version."""
        return [*self.train, self.test, *(names for _, names in self.labels.values())]

    def read(self, path: Path, content_of: Callable[[str], bytes], label: str | None) -> ImageSource:
        """Read the source at `path`. `content_of` returns the content of one of its files.

        Raises `DataError` if a file is damaged, and `UsageError` if there is no such `label`.
        """
        place, names = self.labels[choose(label, list(self.labels))]
        lines = content_of(names).decode("utf-8", "replace").splitlines()
        classes = [line.strip() for line in lines if line.strip()]
        train = [self._batch(name, content_of(name), place) for name in self.train]
        joined = LabelledImages(
            np.concatenate([batch.pixels for batch in train]), np.concatenate([batch.labels for batch in train])
        )
        return source(path, classes, {"train": joined, "test": self._batch(self.test, content_of(self.test), place)})

    def _batch(self, name: str, content: bytes, place: int) -> LabelledImages:
        """Split a file into records. Raises `DataError` if its length is not a multiple of the record's length."""
        record = len(self.labels) + _PIXELS
        if not content or len(content) % record:
            got, allowed = f"{len(content):,} bytes", f"records of {record:,} bytes, {self.name}"
            raise DataError(f"{name} has a wrong length", got=got, allowed=allowed, fix="extract the archive again")
        records = np.frombuffer(content, np.uint8).reshape(-1, record)
        return LabelledImages(_from_planes(records[:, len(self.labels) :]), records[:, place].astype(np.int64))


def _from_planes(flat: np.ndarray) -> np.ndarray:
    """Convert three colour planes, each stored row by row, to pixels. uint8 [R, 3072] -> uint8 [R, 32, 32, 3]"""
    return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


VERSIONS = [
    _Version(
        "CIFAR-10, binary version",
        "c32a1d4ab5d03f1284b67883e8d87530",
        tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
        "test_batch.bin",
        {"label": (0, "batches.meta.txt")},
    ),
    _Version(
        "CIFAR-100, binary version",
        "03b5dce01913d631647c71ecec9e9cb8",
        ("train.bin",),
        "test.bin",
        {"fine": (1, "fine_label_names.txt"), "coarse": (0, "coarse_label_names.txt")},
    ),
]


def read_archive(path: Path, label: str | None) -> ImageSource:
    """Read a published archive. Raises `DataError` if it is another file, and `OSError` if it cannot be read."""
    with files.opened(path) as file:
        size = path.stat().st_size
        small = size <= _ARCHIVE_BYTES
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest() if small else ""
        version = next((version for version in VERSIONS if version.md5 == md5), None)
        if version is None:
            refuse_pickles(path)
            raise DataError(
                f"{path} is not CIFAR's binary version as it is published",
                got=f"{size:,} bytes" + f", MD5 {md5}" * small,
                allowed=", ".join(f"MD5 {version.md5} ({version.name})" for version in VERSIONS),
                fix=f"{_DOWNLOAD}; if you made this archive, extract it and point to the folder",
            )
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            opened = ((PurePosixPath(member.name).name, tar.extractfile(member)) for member in tar)
            content = {name: reader.read() for name, reader in opened if reader}
    return version.read(path, content.__getitem__, label)


def folders(path: Path) -> dict[str, Callable[[str | None], ImageSource]]:
    """The readers of CIFAR in a folder and its direct subfolders, by description.

    A version counts as present if at least two of its files are in one folder. Reading it then reports those that are
    missing.
    """

    def reader(version: _Version, folder: Path) -> Callable[[str | None], ImageSource]:
        return partial(version.read, path, lambda name: files.read_bytes(folder / name, _FILE_BYTES))

    return {
        f"{version.name} ({folder})": reader(version, folder)
        for folder in _with_subfolders(path)
        for version in VERSIONS
        if sum((folder / name).is_file() for name in version.files) > 1
    }


def _with_subfolders(path: Path) -> list[Path]:
    """A folder and its direct subfolders. Hidden ones are skipped."""
    return [path, *(p for p in sorted(path.iterdir()) if p.is_dir() and not p.name.startswith("."))]


def refuse_pickles(path: Path) -> None:
    """Raise `DataError` if `path` is the Python version of CIFAR: an archive or a folder of pickles."""
    if path.is_dir():
        pickled = any((folder / name).is_file() for folder in _with_subfolders(path) for name in _PICKLES)
    else:
        pickled = "-python" in path.name
    if pickled:
        what = "the Python version of CIFAR is not read, because it consists of pickles"
        raise DataError(what, got=path, fix=_DOWNLOAD)
