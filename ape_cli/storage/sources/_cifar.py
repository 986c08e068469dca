"""CIFAR-10 and CIFAR-100 in their binary version, as published archives.

Source: https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009).

A record has 1 byte for the label (CIFAR-100: 2 bytes, coarse then fine) and 3,072 bytes for the pixels: a red, a green
and a blue plane, each 32x32 and stored row by row. An archive must have the published MD5, so its content is known
before it is unpacked. The Python version consists of pickles and is not read.

Shapes: R images.
"""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from ape_cli.core.errors import DataError
from ape_cli.storage import files
from ape_cli.storage.sources._source import ImageSource, LabelledImages, choose, source

_PIXELS = 3 * 32 * 32
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
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
        version = next((version for version in VERSIONS if version.md5 == md5), None)
        if version is None:
            allowed = ", ".join(f"MD5 {version.md5} ({version.name})" for version in VERSIONS)
            what = f"{path} is not the published binary version of CIFAR"
            raise DataError(what, got=f"MD5 {md5}", allowed=allowed, fix=DOWNLOAD)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            opened = ((PurePosixPath(member.name).name, tar.extractfile(member)) for member in tar)
            content = {name: reader.read() for name, reader in opened if reader}
    index, names = version.labels[choose(label, list(version.labels))]
    splits = {}
    for split, batches in (("train", version.train), ("test", (version.test,))):
        flat = np.frombuffer(b"".join(content[name] for name in batches), np.uint8)
        records = flat.reshape(-1, len(version.labels) + _PIXELS)
        planes = records[:, len(version.labels) :].reshape(-1, 3, 32, 32)
        pixels = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))  # [R, 32, 32, 3]
        splits[split] = LabelledImages(pixels, records[:, index].astype(np.int64))
    return source(path, content[names].decode().split(), splits)
