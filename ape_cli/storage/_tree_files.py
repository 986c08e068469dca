"""Find the files of a source of trees: a file, those in a folder and below it, or those that a pattern matches.

Symbolic links in a folder are never followed, so that no cycle is followed and nothing outside of the folder is read.
Hidden files and folders, whose names begin with a dot, are left out.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ape_cli.core import budget
from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import files
from ape_cli.storage.paths import local_path

_WILD = frozenset("*?[")


@dataclass
class FoundFiles:
    """The files of a source. Paths are relative to its base, with slashes."""

    base: Path  # the folder that the paths are relative to
    name: str  # what the source may be called
    paths: list[str] = field(default_factory=list)  # sorted; also special files, which `content` refuses
    links: list[str] = field(default_factory=list)  # symbolic links, which are not followed
    datasets: list[str] = field(default_factory=list)  # folders that `ape gen` wrote, which are not read
    alone: bool = False  # whether the source is one file
    chosen: bool = False  # whether the source names its suffix: a file, or a pattern such as `*.txt`

    def told(self) -> str:
        """How many files there are of each suffix, for a message.

        >>> FoundFiles(Path("."), "x", ["a.txt", "b", "c.txt"], ["d"]).told()
        '3 files: 2 .txt, 1 without a suffix; 1 symbolic link, which is not followed'
        """
        counts = Counter(PurePosixPath(path).suffix.lower() or "without a suffix" for path in self.paths)
        files = f"{len(self.paths):,} file" + "s" * (len(self.paths) != 1)
        kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in counts.most_common(10))
        one = len(self.links) == 1
        links = f"{len(self.links):,} symbolic link{'' if one else 's'}, which {'is' if one else 'are'} not followed"
        return files + (f": {kinds}" if kinds else "") + (f"; {links}" if self.links else "")


def find(where: str) -> FoundFiles:
    """Find the files of a source. Nothing is opened.

    Raises `UsageError` if no file can have this name, and `DataError` if there is no such file or folder, if a folder
    cannot be read, or if there are too many files.
    """
    if not where:
        raise UsageError(
            "the source of trees has no name", got="''", fix="name a file or a folder; . is the current folder"
        )
    path = local_path(where)
    try:
        if path.is_dir():
            return _below(FoundFiles(path, path.resolve().name))
        if os.path.lexists(path):
            return FoundFiles(path.parent, path.stem, [path.name], alone=True, chosen=True)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not _WILD & set(str(path)):
        raise DataError(
            "there is no such file or folder",
            got=path,
            allowed="a file, a folder, or a pattern such as 'folder/**/*.py'",
            fix="check its name",
        )
    return _matching(path)


def _matching(path: Path) -> FoundFiles:
    """The files that a pattern matches. `**` stands for any number of folders."""
    first = next(number for number, part in enumerate(path.parts) if _WILD & set(part))
    base, pattern = Path(*path.parts[:first]), path.parts[first:]
    found = FoundFiles(base, base.resolve().name, chosen=bool(PurePosixPath(pattern[-1]).suffix.strip(".*?[]")))
    _below(found, None if "**" in pattern else len(pattern))
    found.paths = [each for each in found.paths if _matches(each.split("/"), pattern)]
    found.links = [each for each in found.links if _matches(each.split("/"), pattern)]
    return found


def _matches(parts: list[str], pattern: tuple[str, ...]) -> bool:
    """Whether the parts of a path match a pattern. `**` at the end stands for all files.

    >>> _matches(["a", "b", "c.py"], ("**", "*.py")), _matches(["a", "c.py"], ("*.py",)), _matches(["c"], ("**",))
    (True, False, True)
    """
    reached = {0}  # how many parts the pattern can have used so far
    for number, wanted in enumerate(pattern):
        if wanted == "**":
            last = number == len(pattern) - 1
            reached = {len(parts)} if last else set(range(min(reached, default=len(parts)), len(parts)))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], wanted)}
        if not reached:
            return False
    return len(parts) in reached


def _below(found: FoundFiles, depth: int | None = None) -> FoundFiles:
    """Add the files in the folder `found.base` and at most `depth` - 1 folders below it; None for all."""
    entries = 0
    folders = [("", 1)]
    while folders:
        folder, level = folders.pop()
        inside = list(_entries(found.base / folder))
        if {"manifest.json", "data"} <= {name for name, _ in inside}:
            found.datasets.append(folder or ".")
            continue
        for name, about in inside:
            entries += 1
            if entries > budget.TREE_ENTRIES:
                raise _too_many(found.base, f"more than {budget.TREE_ENTRIES:,} files and folders")
            path = f"{folder}{name}"
            if name.startswith("."):
                continue
            if stat.S_ISLNK(about.st_mode):
                found.links.append(path)
            elif not stat.S_ISDIR(about.st_mode):
                found.paths.append(path)
            elif depth is None or level < depth:
                folders.append((f"{path}/", level + 1))
    found.paths.sort()
    found.links.sort()
    return found


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The names in a folder, and what they are. Raises `DataError` if the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name, entry.stat(follow_symlinks=False)
    except OSError as error:
        raise _unreadable(folder, error) from error


def content(path: Path) -> bytes:
    """The bytes of a file of a source. Raises `DataError` if it is too large, is no regular file or cannot be read."""
    try:
        str(path).encode()
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):  # a device may do something when it is opened
            raise OSError(0, "it is no regular file")
        if about.st_size > budget.TREE_FILE_BYTES:
            raise files.too_large(path, budget.TREE_FILE_BYTES)
        return files.read_bytes(path, budget.TREE_FILE_BYTES)
    except UnicodeEncodeError as error:
        raise DataError(f"cannot read {str(path)!a}", got="its name is not UTF-8 text", fix="rename it") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DataError:
    """The error for a file or a folder that cannot be read."""
    return DataError(f"cannot read {path}", got=error.strerror or str(error), fix="leave it out, or make it readable")


def _too_many(base: Path, got: str) -> DataError:
    """The error for a source of too many files."""
    return DataError(f"too many files in {base}", got=got, fix="take a part of them")
