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
DOWNLOAD = (
    "download cifar-10-binary.tar.gz or cifar-100-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html; "
    "the Python version of CIFAR is not read, because it consists of pickles"
)


@dataclass(frozen=True)
class _Version:
    """The binary version of CIFAR-10 or CIFAR-100."""

    name: str
    md5: str  # of the published archive
    train: tuple[str, ...]  # names of the files of the training split
    test: str
    labels: dict[str, tuple[int, str]]  # label -> index of its byte in a record, and the file that names its classes

    def read(self, path: Path, content_of: Callable[[str], bytes], label: str | None) -> ImageSource:
        """Read the source at `path`. `content_of` returns the content of one of its files.

        Raises `DataError` if a file is damaged, and `UsageError` if there is no such `label`.
        """
        place, names = self.labels[choose(label, list(self.labels))]
        lines = content_of(names).decode("utf-8", "replace").splitlines()
        splits = {}
        for split, batches in (("train", self.train), ("test", (self.test,))):
            records = np.concatenate([self._records(name, content_of(name)) for name in batches])
            planes = records[:, len(self.labels) :].reshape(-1, 3, 32, 32)
            pixels = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # [R, 32, 32, 3]
            splits[split] = LabelledImages(pixels, records[:, place].astype(np.int64))
        return source(path, [line.strip() for line in lines if line.strip()], splits)

    def _records(self, name: str, content: bytes) -> np.ndarray:
        """The records of a file: uint8 [R, bytes]. Raises `DataError` if its length is no multiple of a record's."""
        record = len(self.labels) + _PIXELS
        if not content or len(content) % record:
            got, allowed = f"{len(content):,} bytes", f"records of {record:,} bytes, {self.name}"
            raise DataError(f"{name} has a wrong length", got=got, allowed=allowed, fix="extract the archive again")
        return np.frombuffer(content, np.uint8).reshape(-1, record)


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
        small = path.stat().st_size <= _ARCHIVE_BYTES
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest() if small else ""
        version = next((version for version in VERSIONS if version.md5 == md5), None)
        if version is None:
            got = f"MD5 {md5}" if small else f"more than {_ARCHIVE_BYTES:,} bytes"
            allowed = ", ".join(f"MD5 {version.md5} ({version.name})" for version in VERSIONS)
            what = f"{path} is not the published binary version of CIFAR"
            raise DataError(what, got=got, allowed=allowed, fix=f"{DOWNLOAD}; or point to a folder with its files")
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            opened = ((PurePosixPath(member.name).name, tar.extractfile(member)) for member in tar)
            content = {name: reader.read() for name, reader in opened if reader}
    return version.read(path, content.__getitem__, label)


def versions_in(path: Path) -> dict[str, Callable[[str | None], ImageSource]]:
    """The functions that read the versions whose files are in a folder and its direct subfolders, by description."""
    places = {file.name: file for depth in ("*/*", "*") for file in path.glob(depth)}

    def content_of(name: str) -> bytes:
        return files.read_bytes(places.get(name, path / name), _FILE_BYTES)

    present = (each for each in VERSIONS if places.keys() & {*each.train, each.test})
    return {each.name: partial(each.read, path, content_of) for each in present}
