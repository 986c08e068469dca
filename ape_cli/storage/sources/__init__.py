"""Sources of labelled images: CIFAR's binary version, Parquet files as on the Hugging Face hub, scikit-learn's digits.

Nothing is downloaded and nothing is written: archives are read in memory. The name `digits` always means scikit-learn's
digits; write `./digits` for a folder of that name. Rows keep the order of the source.

Shapes: R images, H rows from the top, W columns from the left, C channels: 1 (gray) or 3 (red, green, blue). Pixels are
uint8 [R, H, W, C] and labels are int64 [R].
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.extras import how_to_install
from ape_cli.storage.paths import local_path
from ape_cli.storage.sources import _cifar, _parquet, _shards
from ape_cli.storage.sources._source import ImageSource, LabelledImages, choose

__all__ = ["DIGITS", "FORMATS", "NOT_MIRRORED", "ImageSource", "LabelledImages", "open_source"]

DIGITS = "digits"  # the name of scikit-learn's digits, which need no files
NOT_MIRRORED = frozenset({DIGITS})  # sources whose images mean something else in a mirror
FORMATS = (
    "digits; cifar-10-binary.tar.gz, cifar-100-binary.tar.gz, or a folder with their files; a .parquet file, or a "
    "folder of them"
)


def open_source(where: str, label: str | None = None) -> ImageSource:
    """Read all images and labels of a source.

    `where` is `digits`, or the path of a file or folder. `label` selects the labels if the source has several: `fine`
    or `coarse` for CIFAR-100, or the name of a column of a Parquet file. The default is `fine` for CIFAR-100, and the
    only column of labels for Parquet.

    Raises `UsageError` if the request is invalid, and `DataError` if the source is missing, damaged or of an unknown
    format.
    """
    if where == DIGITS:
        return _digits(label)
    if not where:
        raise UsageError(
            "the source has no name", got="''", allowed=FORMATS, fix="name a file or a folder; . is the current folder"
        )
    path = local_path(where)
    try:
        return _reader(path)(label)
    except OSError as error:
        raise DataError(
            f"cannot read {error.filename or path}",
            got=error.strerror or str(error),
            fix="make it readable, or fetch it again",
        ) from error


def _reader(path: Path) -> Callable[[str | None], ImageSource]:
    """The function that reads the source at `path`; its argument is `label`.

    Raises `DataError` if there is no source at `path`, or more than one.
    """
    if not path.exists():
        raise DataError("there is no such file or folder", got=path, allowed=FORMATS, fix="check its name")
    readers: dict[str, Callable[[str | None], ImageSource]] = {}  # by description
    if path.suffix == ".parquet" and not path.is_dir():
        readers["Parquet"] = lambda label: _parquet.read(path, {"train": [path]}, label)
    elif path.name.endswith((".gz", ".tgz", ".tar")) and not path.is_dir():
        readers["CIFAR"] = lambda label: _cifar.read_archive(path, label)
    elif path.is_dir():
        readers = _cifar.folders(path)
        shards = _shards.find(path)
        if shards:
            readers["Parquet files"] = lambda label: _parquet.read(path, _shards.by_split(path, shards), label)
    if not readers:
        _cifar.refuse_pickles(path)
        raise DataError("no images of a known format", got=path, allowed=FORMATS, fix="point to one of these")
    if len(readers) > 1:
        raise DataError("several sources of images", got=", ".join(readers), allowed="one", fix="point to one of them")
    return next(iter(readers.values()))


def _digits(label: str | None) -> ImageSource:
    """The 1,797 handwritten digits, 8x8 gray, that are part of scikit-learn, as one split `train`.

    Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits (UCI), its test part.

    Raises `UsageError` if scikit-learn is not installed, or if `label` is neither None nor "label".
    """
    choose(label, ["label"])
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        how = how_to_install("image")
        raise UsageError("digits need scikit-learn", got="it is not installed", fix=how) from error
    digits = load_digits()
    pixels = np.rint(digits.images[..., None] * (255 / 16)).astype(np.uint8)  # scale 0..16 to 0..255; [R, 8, 8, 1]
    train = LabelledImages(pixels, digits.target.astype(np.int64))
    return ImageSource("digits", list("0123456789"), {"train": train})
