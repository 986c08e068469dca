"""The files of a source of trees: a file, those in a folder and below it, or those that a pattern matches.

A Parquet file has a column of texts, each of which is a document.

Symbolic links in a folder are never followed, so that no cycle is followed and nothing outside of the folder is read.
Hidden files and folders, whose names begin with a dot, are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError, UsageError, remedy, unknown
from ape_cli.storage import files
from ape_cli.storage.parquet import is_bytes, is_text, reading, values
from ape_cli.storage.paths import local_path

_WILD = frozenset("*?[")
_FILE_BYTES = 256 * 2**20  # the most that a file may have
_COLUMN_BYTES = 2**30  # the most that a row group of a Parquet file, and all of its texts, may have


@dataclass
class TreeFiles:
    """The files of a source. Paths are relative to its base, with slashes."""

    base: Path  # the folder that the paths are relative to
    name: str  # what the source may be called
    paths: list[str] = field(default_factory=list)  # sorted; also special files, which `content` refuses
    left_out: dict[str, str] = field(default_factory=dict)  # path of a file or a folder: the reason
    chosen: bool = False  # whether the source names its suffix: a file, or a pattern such as `*.txt`

    def counts(self) -> str:
        """How many files there are, and with which suffixes, for a message.

        >>> TreeFiles(Path("."), "x", ["a.txt", "b", "c.txt"], {"d": "a symbolic link"}).counts()
        '3 files (.txt, without a suffix), 1 left out'
        """
        suffixes = sorted({PurePosixPath(path).suffix.lower() or "without a suffix" for path in self.paths})
        return f"{len(self.paths):,} files ({', '.join(suffixes[:10])}), {len(self.left_out):,} left out"


def find(where: str) -> TreeFiles:
    """Find the files of a source. Nothing is opened.

    Raises `UsageError` if no file can have this name, and `DataError` if there is no such file or folder.
    """
    if not where:
        raise UsageError("the source of trees has no name", fix="name a file or a folder; . is the current folder")
    path = local_path(where)
    if path.is_dir():
        return _matching(path, "**/*")
    if os.path.lexists(path):
        return TreeFiles(path.parent, path.stem, [path.name], chosen=True)
    first = next((number for number, part in enumerate(path.parts) if _WILD & set(part)), None)
    if first is None:
        raise DataError("no such file, folder or pattern (as in 'folder/**/*.py')", got=path, fix="check its name")
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
        chain = (*reversed(relative.parents[:-1]), relative)  # from the outermost folder to the file itself
        left_out = next(((part.as_posix(), why) for part in chain if (why := reason(base / part))), None)
        if left_out:
            source.left_out |= [left_out]
        elif not path.is_dir():
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
        return files.read_bytes(path, _FILE_BYTES)
    except OSError as error:
        raise DataError(error.strerror or str(error), fix=remedy(error)) from error


def texts(content: bytes, column: str | None, mark: bytes) -> Iterator[bytes | None]:
    """The texts of a column of a Parquet file, row by row; None for a null. A column of bytes has files.

    Strings are in UTF-8 after a `mark`. It may be a byte order mark, so that what they declare does not count.

    `column` may be None if there is only one column of texts, or none, and only one of bytes. Equal texts are in memory
    only once.

    Raises `UsageError` if there is no such column, or if it is not clear which one is meant, and `DataError` if the
    file cannot be read or is too large. The caller adds the name of the file.
    """
    with reading("not a complete Parquet file"):
        schema = pq.read_schema(pa.BufferReader(content))
    name = _chosen(schema, column)
    mark = mark if is_text(schema.field(name).type) else b""
    yield from (text and mark + text for (text,) in values(content, [name], _COLUMN_BYTES))


def _chosen(schema: pa.Schema, column: str | None) -> str:
    """The name of the column of texts. Raises `UsageError` if there is none, or if it is not clear which."""
    names, others = ([field.name for field in schema if is_kind(field.type)] for is_kind in (is_text, is_bytes))
    if column is not None:
        if (names + others).count(column) != 1:
            raise unknown("text column", column, names + others)
        return column
    names = names or others
    if len(names) != 1:
        what = "the text column is ambiguous; name it with `column`" if names else "the file has no text column"
        raise UsageError(what, got=", ".join(schema.names), allowed=", ".join(names) or None)
    return names[0]
