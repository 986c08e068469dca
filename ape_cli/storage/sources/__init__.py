"""Sources of labelled images: archives of CIFAR, Parquet files as on the Hugging Face hub, and scikit-learn's digits.

Nothing is downloaded and nothing is written: archives are read in memory. The name `digits` always means scikit-learn's
digits; write `./digits` for a folder of that name. Rows keep the order of the source.

Shapes: R images, H rows from the top, W columns from the left, C channels: 1 (gray) or 3 (red, green, blue). Pixels are
uint8 [R, H, W, C] and labels are int64 [R].
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage.paths import local_path
from ape_cli.storage.sources import _cifar, _digits, _folders, _parquet, _shards
from ape_cli.storage.sources._source import ImageSource, LabelledImages

__all__ = ["DIGITS", "FORMATS", "NOT_MIRRORED", "ImageSource", "LabelledImages", "open_source"]

DIGITS = "digits"  # the name of scikit-learn's digits, which need no files
NOT_MIRRORED = frozenset({DIGITS})  # sources whose images mean something else in a mirror
FORMATS = (
    "digits; cifar-10-binary.tar.gz, cifar-10-python.tar.gz, cifar-100-binary.tar.gz, cifar-100-python.tar.gz, "
    "or what they hold in a folder; a .parquet file, or a folder of them"
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
        return _digits.read(label)
    if not where:
        raise UsageError(
            "the source has no name", got="''", allowed=FORMATS, fix="name a file or a folder; . is the current folder"
        )
    path = local_path(where)
    try:
        return _reader(path)(label)
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror or str(error), fix="make it readable") from error


def _reader(path: Path) -> Callable[[str | None], ImageSource]:
    """The function that reads the source at `path`; its argument is `label`.

    Raises `DataError` if there is no source at `path`, or more than one.
    """
    if not path.exists():
        raise DataError("there is no such file or folder", got=path, allowed=FORMATS, fix="check its name")
    found = _in_folder(path) if path.is_dir() else _in_file(path)
    if not found:
        raise DataError("no images of a known format", got=path, allowed=FORMATS, fix="point to one of these")
    if len(found) > 1:
        raise DataError("several sources of images", got=", ".join(found), allowed="one", fix="point to one of them")
    return next(iter(found.values()))


def _in_file(path: Path) -> dict[str, Callable[[str | None], ImageSource]]:
    """The readers of the sources in a file, by description."""
    if path.suffix == ".parquet":
        return {str(path): lambda label: _parquet.read(path, {"train": [path]}, label)}
    if _folders.is_tar(path):
        return _cifar.sources(path, _folders.in_tar(path, _cifar.FILES))
    return {}


def _in_folder(path: Path) -> dict[str, Callable[[str | None], ImageSource]]:
    """The readers of the sources in a folder, by description."""
    found = _cifar.sources(path, _folders.in_folder(path, _cifar.FILES))
    shards = _shards.found(path)
    if shards:
        found["Parquet files"] = lambda label: _parquet.read(path, _shards.by_split(path, shards), label)
    return found
