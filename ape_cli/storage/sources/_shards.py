"""Assign the Parquet files of a folder to splits by their names, as `load_dataset` of Hugging Face does."""

from __future__ import annotations

import re
from pathlib import Path

from ape_cli.core.errors import DataError

_WORDS = {  # words in names of files and folders that `load_dataset` of Hugging Face knows
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SPLIT = {word: split for split, words in _WORDS.items() for word in words}
_SHARD = re.compile(r"(.*)-(\d{5,})-of-(\d{5,})")


def find(path: Path) -> list[Path]:
    """Find the Parquet files in a folder and up to two levels below, sorted by path. Hidden files are skipped."""
    shards = (file for depth in ("", "*/", "*/*/") for file in path.glob(f"{depth}*.parquet"))
    return sorted(f for f in shards if not any(part.startswith((".", "_")) for part in f.relative_to(path).parts))


def by_split(path: Path, shards: list[Path]) -> dict[str, list[Path]]:
    """Group Parquet files by split.

    The split is taken from the name of the file, else from the folders that contain it. If no name tells a split, all
    files belong to `train`.

    Raises `DataError` if the split of a file is ambiguous, if only some files name a split, if a split is in several
    folders, or if a shard is missing.
    """
    split_of = {file: _split(file.relative_to(path)) for file in shards}
    if not any(split_of.values()):
        split_of = dict.fromkeys(shards, "train")
    splits: dict[str, list[Path]] = {}
    for file, split in split_of.items():
        if split is None:
            raise DataError(
                "a Parquet file belongs to no split, but others do",
                got=file,
                allowed=", ".join(_SPLIT) + " in its name or its folder's",
                fix="rename it, or move it away",
            )
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
        raise DataError(
            f"{split} in several folders", got=", ".join(folders), allowed="one", fix="point to one of them"
        )
    series: dict[tuple[str, str], set[int]] = {}  # (name, number of shards) -> the numbers of those in the folder
    for match in filter(None, (_SHARD.match(part.stem) for part in parts)):
        series.setdefault((match[1], match[3]), set()).add(int(match[2]))
    for (name, total), numbers in series.items():
        missing = next((i for i in range(int(total)) if i not in numbers), None)
        if missing is not None:
            raise DataError(
                f"a shard of {split} is missing",
                got=f"{len(numbers)} of {int(total)}, without {name}-{missing:05d}-of-{total}",
                fix="fetch it too",
            )
