"""Find the files of a source of trees: a file, those in a folder and below it, or those that a pattern matches.

Symbolic links in a folder are never followed, so that no cycle is followed and nothing outside of the folder is read.
Hidden files and folders, whose names begin with a dot, are left out.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

from ape_cli.core import budget
from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import files
from ape_cli.storage.paths import local_path

_WILD = frozenset("*?[")


@dataclass
class TreeFiles:
    """The files of a source. Paths are relative to its base, with slashes."""

    base: Path  # the folder that the paths are relative to
    name: str  # what the source may be called
    paths: list[str] = field(default_factory=list)  # sorted; also special files, which `content` refuses
    left_out: dict[str, str] = field(default_factory=dict)  # path of a file or a folder: the reason
    chosen: bool = False  # whether the source names its suffix: a file, or a pattern such as `*.txt`

    def counts(self) -> str:
        """How many files there are of each suffix, for a message.

        >>> TreeFiles(Path("."), "x", ["a.txt", "b", "c.txt"], {"d": "a symbolic link"}).counts()
        '3 files: 2 .txt, 1 without a suffix; 1 left out: d, a symbolic link'
        """
        suffixes = Counter(PurePosixPath(path).suffix.lower() or "without a suffix" for path in self.paths)
        text = f"{len(self.paths):,} file" + "s" * (len(self.paths) != 1)
        if suffixes:
            text += ": " + ", ".join(f"{count:,} {suffix}" for suffix, count in suffixes.most_common(10))
        if self.left_out:
            text += f"; {len(self.left_out):,} left out: " + ", ".join(next(iter(self.left_out.items())))
        return text


def find(where: str) -> TreeFiles:
    """Find the files of a source. Nothing is opened.

    Raises `UsageError` if no file can have this name, and `DataError` if there is no such file or folder.
    """
    if not where:
        raise UsageError(
            "the source of trees has no name", got="''", fix="name a file or a folder; . is the current folder"
        )
    path = local_path(where)
    if path.is_dir():
        return _matching(path, "**/*")
    if os.path.lexists(path):
        return TreeFiles(path.parent, path.stem, [path.name], chosen=True)
    first = next((number for number, part in enumerate(path.parts) if _WILD & set(part)), None)
    if first is None:
        raise DataError(
            "there is no such file or folder",
            got=path,
            allowed="a file, a folder, or a pattern such as 'folder/**/*.py'",
            fix="check its name",
        )
    pattern = "/".join(path.parts[first:])
    return _matching(Path(*path.parts[:first]), f"{pattern}/*" if pattern.endswith("**") else pattern)


def _matching(base: Path, pattern: str) -> TreeFiles:
    """The files below a folder that a pattern matches. `**` stands for any number of folders."""
    source = TreeFiles(base, base.resolve().name, chosen=bool(PurePosixPath(pattern).suffix.strip(".*?[]")))
    reason = cache(_reason)
    try:
        matching = set(base.glob(pattern))
    except (ValueError, OSError) as error:
        raise UsageError("the files of the source cannot be listed", got=error, fix="correct its name") from error
    for path in matching:
        relative = path.relative_to(base)
        if any(part.startswith(".") for part in relative.parts):
            continue
        for part in [*reversed(relative.parents[:-1]), relative]:  # from the outermost folder to the file itself
            if why := reason(base / part):
                source.left_out[part.as_posix()] = why
                break
        else:
            if not path.is_dir():
                source.paths.append(relative.as_posix())
    source.paths.sort()
    return source


def _reason(path: Path) -> str | None:
    """Why a file or a folder is left out; None if it is not."""
    if path.is_symlink():
        return "a symbolic link, which is not followed"
    if not path.is_dir():
        return None
    try:
        names = {each.name for each in path.iterdir()}
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror})"
    return "a dataset of this program" if names >= {"manifest.json", "data"} else None


def content(path: Path) -> bytes:
    """The bytes of a file of a source. Raises `DataError` if it is too large, is no regular file or cannot be read."""
    try:
        return files.read_bytes(path, budget.TREE_FILE_BYTES)
    except OSError as error:
        raise DataError(error.strerror or str(error)) from error
