"""Sources of labelled images: CIFAR's binary version, Parquet files as on the Hugging Face hub, scikit-learn's digits.

Nothing is downloaded and nothing is written: archives are read in memory. The name `digits` always means scikit-learn's
digits; write `./digits` for a folder of that name. Rows keep the order of the source.

Shapes: R images, H rows from the top, W columns from the left, C channels: 1 (gray) or 3 (red, green, blue). Pixels are
uint8 [R, H, W, C] and labels are int64 [R].
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np

from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.extras import how_to_install
from ape_cli.storage import files
from ape_cli.storage.paths import local_path
from ape_cli.storage.sources import _cifar, _parquet
from ape_cli.storage.sources._source import ImageSource, LabelledImages, choose

__all__ = ["DIGITS", "FORMATS", "NOT_MIRRORED", "ImageSource", "LabelledImages", "open_source"]

DIGITS = "digits"  # the name of scikit-learn's digits, which need no files
NOT_MIRRORED = frozenset({DIGITS})  # sources whose images mean something else in a mirror
FORMATS = "digits; cifar-10-binary.tar.gz; cifar-100-binary.tar.gz; a .parquet file, or a folder of them"

_WORDS = {  # words in names of files and folders that `load_dataset` of Hugging Face knows
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SPLIT = {word: split for split, words in _WORDS.items() for word in words}
_SHARD = re.compile(r"-\d{5,}-of-(\d{5,})")


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
        raise UsageError("the source has no name", allowed=FORMATS, fix="name a file or a folder")
    path = local_path(where)
    try:
        return _read(path, label)
    except OSError as error:
        what, why = f"cannot read {error.filename or path}", error.strerror or str(error)
        raise DataError(what, got=why, fix=files.how_to_read(error, "fetch it again")) from error


def _read(path: Path, label: str | None) -> ImageSource:
    """Read the source at `path`. Raises `DataError` if there is no source at `path`."""
    if not path.exists():
        raise DataError("there is no such file or folder", got=path, allowed=FORMATS, fix="check its name")
    if path.is_dir() and (shards := _parquet_files(path)):
        return _parquet.read(path, _by_split(path, shards), label)
    if path.suffix == ".parquet":
        return _parquet.read(path, {"train": [path]}, label)
    if path.name.endswith((".gz", ".tgz", ".tar")):
        return _cifar.read_archive(path, label)
    raise DataError("no images of a known format", got=path, allowed=FORMATS, fix=f"for CIFAR, {_cifar.DOWNLOAD}")


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


def _parquet_files(path: Path) -> list[Path]:
    """Find the Parquet files in a folder and up to two levels below, sorted by path. Hidden files are skipped."""
    shards = (file for depth in ("", "*/", "*/*/") for file in path.glob(f"{depth}*.parquet"))
    return sorted(f for f in shards if not any(part.startswith((".", "_")) for part in f.relative_to(path).parts))


def _by_split(path: Path, shards: list[Path]) -> dict[str, list[Path]]:
    """Group Parquet files by split.

    As in `load_dataset` of Hugging Face, the split is taken from the name of the file, else from the folders that
    contain it. If no name tells a split, all files belong to `train`.

    Raises `DataError` if the split of a file is ambiguous, if only some files name a split, if a split is in several
    folders, or if a shard is missing.
    """
    split_of = {file: _split(file.relative_to(path)) for file in shards}
    if not any(split_of.values()):
        split_of = dict.fromkeys(shards, "train")
    splits: dict[str, list[Path]] = {}
    for file, split in split_of.items():
        if split is None:
            allowed = f"{', '.join(_SPLIT)} in its name or its folder's"
            raise DataError("a Parquet file belongs to no split, but others do", got=file, allowed=allowed)
        splits.setdefault(split, []).append(file)
    for split, parts in splits.items():
        _check_shards(split, parts)
    return {split: splits[split] for split in _WORDS if split in splits}


def _split(file: Path) -> str | None:
    """The split that the name of a file or of its folders tells, or None.

    >>> _split(Path("data/train-00000-of-00001.parquet")), _split(Path("dev/x.parquet")), _split(Path("x.parquet"))
    ('train', 'validation', None)

    Raises `DataError` if a name tells two splits.
    """
    for part in (file.stem, *reversed(file.parts[:-1])):
        splits = {_SPLIT[word] for word in re.findall("[a-z]+", part.lower()) if word in _SPLIT}
        if len(splits) > 1:
            raise DataError("a file name contains two splits", got=file, allowed=", ".join(_WORDS), fix="rename it")
        if splits:
            return splits.pop()
    return None


def _check_shards(split: str, parts: list[Path]) -> None:
    """Raise `DataError` if the files of a split are in several folders, or a shard NAME-00000-of-00001 is missing."""
    folders = sorted({str(part.parent) for part in parts})
    if len(folders) > 1:
        raise DataError(f"{split} in several folders", got=", ".join(folders), fix="point to one of them")
    series = Counter(match[1] for match in map(_SHARD.search, (part.stem for part in parts)) if match)
    for total, count in series.items():
        if count < int(total):
            raise DataError(f"a shard of {split} is missing", got=f"{count} of {int(total)}", fix="fetch it too")
