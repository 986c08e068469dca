"""CIFAR-10 and CIFAR-100 as published: the binary version and the Python version.

Source: https://www.cs.toronto.edu/~kriz/cifar.html (Krizhevsky 2009).

A record of the binary version has 1 byte for the label (CIFAR-100: 2 bytes, coarse then fine) and 3,072 bytes for the
pixels: a red, a green and a blue plane, each 32x32 and stored row by row. The Python version stores the same pixels as
the rows of an array.

Deviation: a batch may have any number of records, not only 10,000 or 50,000.

Shapes: R images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ape_cli.core.errors import DataError
from ape_cli.storage.sources import _pickled
from ape_cli.storage.sources._folders import Files, check_total
from ape_cli.storage.sources._source import ImageSource, LabelledImages, check_names, chosen, of_labels, source

_PIXELS = 3 * 32 * 32
_AGAIN = "fetch or extract the archive again"


@dataclass(frozen=True)
class _Version(ABC):
    """One of the four published versions: CIFAR-10 or CIFAR-100, binary or Python."""

    name: str
    train: tuple[str, ...]  # names of the files of the training split
    test: str

    @property
    @abstractmethod
    def labels(self) -> list[str]:
        """The values of `label` that a user may choose, the default first."""

    @property
    @abstractmethod
    def meta(self) -> list[str]:
        """The names of the files that contain the names of the classes."""

    @abstractmethod
    def classes(self, files: Files, label: str) -> list[str]:
        """The names of the classes, by label. Raises `DataError` if the file is damaged."""

    @abstractmethod
    def batch(self, name: str, content: bytes, label: str) -> LabelledImages:
        """Parse the file `name`. Raises `DataError` if its content is damaged."""

    @property
    def files(self) -> list[str]:
        """The names of all files of this version."""
        return [*self.train, self.test, *self.meta]

    def read(self, path: Path, files: Files, label: str | None) -> ImageSource:
        """Read the source at `path` from its `files`.

        Raises `DataError` if a file is missing or damaged or the files are too large, and `UsageError` if there is no
        such `label`.
        """
        which = chosen(label, self.labels)
        gone = [name for name in self.files if name not in files]
        if gone:
            raise DataError(
                f"{self.name} is incomplete", got=f"no {', '.join(gone)}", allowed=", ".join(self.files), fix=_AGAIN
            )
        size = 0

        def batch(name: str) -> LabelledImages:
            nonlocal size
            content = files[name]()
            size += len(content)
            check_total(path, size)
            return self.batch(name, content, which)

        splits = {"train": _joined([batch(name) for name in self.train]), "test": batch(self.test)}
        return source(path, self.classes(files, which), splits)


@dataclass(frozen=True)
class _Binary(_Version):
    """A binary version: files of records with a fixed length."""

    places: dict[str, int]  # label -> index of its byte in a record
    named: dict[str, str]  # label -> name of the file that lists its classes

    @property
    def labels(self) -> list[str]:
        """The values of `label` that a user may choose, the default first."""
        return list(self.places)

    @property
    def meta(self) -> list[str]:
        """The names of the files that contain the names of the classes."""
        return list(self.named.values())

    def classes(self, files: Files, label: str) -> list[str]:
        """The names of the classes: the non-empty lines of a text file. Raises `DataError` if it is too long."""
        content = files[self.named[label]]()
        check_names([content])
        lines = content.decode("utf-8", "replace").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def batch(self, name: str, content: bytes, label: str) -> LabelledImages:
        """Split the file into records. Raises `DataError` if its length is not a multiple of the record's length."""
        record = len(self.places) + _PIXELS
        if not content or len(content) % record:
            raise DataError(
                f"{name} has a wrong length",
                got=f"{len(content):,} bytes",
                allowed=f"records of {record:,} bytes, {self.name}",
                fix=_AGAIN,
            )
        records = np.frombuffer(content, np.uint8).reshape(-1, record)
        return LabelledImages(_from_planes(records[:, len(self.places) :]), of_labels(records[:, self.places[label]]))


@dataclass(frozen=True)
class _Python(_Version):
    """A Python version: files of pickled dictionaries."""

    keys: dict[str, str]  # label -> its key in the dictionary of a batch
    named: dict[str, str]  # label -> key of the names of its classes
    named_in: str  # name of the file that contains them

    @property
    def labels(self) -> list[str]:
        """The values of `label` that a user may choose, the default first."""
        return list(self.keys)

    @property
    def meta(self) -> list[str]:
        """The name of the file that contains the names of the classes."""
        return [self.named_in]

    def classes(self, files: Files, label: str) -> list[str]:
        """The names of the classes, from the pickled dictionary. Raises `DataError` if they are not a list of texts."""
        found = _pickled.load(self.named_in, files[self.named_in]())
        names = _list(_value(self.named_in, found, self.named[label]))
        if not names or not all(isinstance(name, str | bytes) for name in names):
            raise _odd(self.named_in, f"{self.named[label]} that are no list of names")
        check_names(names)
        return [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]

    def batch(self, name: str, content: bytes, label: str) -> LabelledImages:
        """Read pixels and labels from the pickled dictionary. Raises `DataError` if their types or shapes are wrong."""
        found = _pickled.load(name, content)
        data, labels = _value(name, found, "data"), _list(_value(name, found, self.keys[label]))
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != _PIXELS or not len(data):
            raise _odd(name, f"data that are no rows of {_PIXELS:,} bytes")
        if not all(type(x) is int and 0 <= x < 256 for x in labels) or len(labels) != len(data):
            raise _odd(name, f"{self.keys[label]} that are no {len(data):,} numbers from 0 to 255")
        return LabelledImages(_from_planes(data), of_labels(labels))


def _from_planes(flat: np.ndarray) -> np.ndarray:
    """Convert three colour planes, each stored row by row, to pixels. uint8 [R, 3072] -> uint8 [R, 32, 32, 3]"""
    return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _joined(batches: list[LabelledImages]) -> LabelledImages:
    """Concatenate the batches of a split."""
    return LabelledImages(np.concatenate([b.pixels for b in batches]), np.concatenate([b.labels for b in batches]))


def _value(name: str, found: dict[str, Any], key: str) -> Any:
    """The value of `key` in the dictionary of the file `name`. Raises `DataError` if the key is missing."""
    if key not in found:
        raise _odd(name, f"no {key}, only {', '.join(found) or 'nothing'}")
    return found[key]


def _list(value: Any) -> list[Any]:
    """`value` if it is a list, else an empty list, which later checks reject."""
    return value if isinstance(value, list) else []


def _odd(name: str, got: str) -> DataError:
    """The error for a file whose content is not as published."""
    return DataError(f"{name} does not have the content of a CIFAR file", got=got, fix=_AGAIN)


_FIVE = tuple(f"data_batch_{i}" for i in range(1, 6))
_VERSIONS: list[_Version] = [
    _Binary(
        "CIFAR-10, binary version",
        tuple(f"{name}.bin" for name in _FIVE),
        "test_batch.bin",
        {"label": 0},
        {"label": "batches.meta.txt"},
    ),
    _Binary(
        "CIFAR-100, binary version",
        ("train.bin",),
        "test.bin",
        {"fine": 1, "coarse": 0},
        {"fine": "fine_label_names.txt", "coarse": "coarse_label_names.txt"},
    ),
    _Python(
        "CIFAR-10, Python version", _FIVE, "test_batch", {"label": "labels"}, {"label": "label_names"}, "batches.meta"
    ),
    _Python(
        "CIFAR-100, Python version",
        ("train",),
        "test",
        {"fine": "fine_labels", "coarse": "coarse_labels"},
        {"fine": "fine_label_names", "coarse": "coarse_label_names"},
        "meta",
    ),
]
FILES = frozenset(name for version in _VERSIONS for name in version.files)


def sources(path: Path, folders: dict[str, Files]) -> dict[str, Callable[[str | None], ImageSource]]:
    """The readers of all CIFAR versions among the files of these folders, by description.

    A version counts as present if at least two of its file names are in one folder. Reading it then reports the files
    that are missing.
    """
    return {
        f"{version.name} ({folder})": partial(version.read, path, found)
        for folder, found in folders.items()
        for version in _VERSIONS
        if len(found.keys() & set(version.files)) > 1
    }
