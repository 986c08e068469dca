"""Sources of trees: a user's own files, whose formats are described in `tree_formats/`.

A source is a file, a folder with everything below it, or a pattern such as `folder/**/*.py`. Parquet files have a
column of texts, each of which is a document. Nothing is executed and nothing is written. Each file is read once, so
that its digest is that of the bytes that were parsed.

Symbolic links in a folder are never followed, so that no cycle is followed and nothing outside of the folder is read.
Hidden files and folders, whose names begin with a dot, are left out.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core import user_parts
from ape_cli.core.errors import DataError, UsageError, remedy, unknown
from ape_cli.core.numbers import counted
from ape_cli.storage import files, tree_formats
from ape_cli.storage.parquet import is_bytes, is_text, reading, values
from ape_cli.storage.paths import local_path
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit

_PARQUET = ".parquet"
_WILD = frozenset("*?[")
_FILE_BYTES = 256 * 2**20  # the most that a file may have
_COLUMN_BYTES = 2**30  # the most that a row group of a Parquet file, and all of its texts, may have
_MOST_FILES = 40_000  # of a source: the manifest lists them
_MOST_TREES, _MOST_NODES = 1_000_000, 20_000_000  # of a source
_MOST_LEVELS = 1_000  # nodes from the root of a tree to a leaf


@dataclass
class TreeFiles:
    """The files of a source. Paths are relative to its base, with slashes."""

    base: Path  # the folder that the paths are relative to
    name: str  # what the source may be called
    paths: list[str] = field(default_factory=list)  # sorted; also special files, which `content` refuses
    left_out: dict[str, str] = field(default_factory=dict)  # path of a file or a folder: the reason
    chosen: bool = False  # whether the source names its suffix: a file, or a pattern such as `*.txt`

    def counts(self) -> str:
        """How many files there are, and with which suffixes, for a message."""
        suffixes = sorted({PurePosixPath(path).suffix.lower() or "without a suffix" for path in self.paths})
        return f"{counted(len(self.paths), 'file')} ({', '.join(suffixes[:10])}), {len(self.left_out):,} left out"


@dataclass
class TreeSource:
    """The trees of a source, with the files that they come from."""

    name: str  # fit for the name of a folder
    formats: list[str]  # names of the formats, sorted; several only for languages of tree-sitter
    unit: Unit  # what a tree is; `subtree` if the caller cuts subtrees from these trees
    files: dict[str, str] = field(default_factory=dict)  # path below the source: SHA-256, sorted by path
    skipped: list[tuple[str, str]] = field(default_factory=list)  # path, and the reason
    others: int = 0  # files whose suffix is not one of the format
    trees: list[tuple[int, int, ParsedTree]] = field(default_factory=list)  # numbers of the file and of its document


def read_trees(
    where: str, *, format: str | None = None, unit: str | None = None, column: str | None = None, skip_bad: bool = False
) -> TreeSource:
    """Read all trees of a source, sorted by the path of their file, and then in the order of the file.

    `format` is the name of a format; the default is the one that the suffixes of the files tell. `unit` is what one
    tree is; the default is the format's first. With `subtree`, the trees are those of the default, and the caller cuts
    them. `column` is the column of texts of Parquet files; if it is given, no other files of a folder are read. With
    `skip_bad`, files (and rows of Parquet files) that cannot be read are left out and named in `skipped`. Symbolic
    links in a folder are always named there.

    Raises `UsageError` if the request is invalid or the source too large, and `DataError` if there is no such source,
    if a file cannot be read, or if there is no tree.
    """
    listing = _find(where)
    found = len(listing.paths)
    parquet = [path for path in listing.paths if PurePosixPath(path).suffix.lower() == _PARQUET]
    in_parquet = bool(parquet) and (column is not None or len(parquet) == len(listing.paths))
    if in_parquet:
        listing.paths = parquet
    elif column is not None:
        raise UsageError("only a Parquet file has columns", got=f"`column={column}`", fix="leave `column` out")
    if in_parquet and format is None:
        raise UsageError("the texts of Parquet files need a format", got=where, fix="name it with `format`")
    reader = _Reader(listing, _plan(listing, format, in_parquet), unit, skip_bad)
    reader.source.others = found - len(reader.plan)
    return reader.read(in_parquet, column)


def check_count(trees: int, nodes: int) -> None:
    """Check that trees are not too many, and do not have too many nodes together. Raises `UsageError`."""
    if trees > _MOST_TREES or nodes > _MOST_NODES:
        got, allowed = f"{trees:,} trees, {nodes:,} nodes or more", f"{_MOST_TREES:,} trees, {_MOST_NODES:,} nodes"
        raise UsageError("the source has too many trees", got=got, allowed=allowed, fix="use a part of it")


def _plan(listing: TreeFiles, name: str | None, in_parquet: bool) -> dict[str, str]:
    """The files to read, each with the name of its format. Raises `UsageError` or `DataError` if there are none."""
    tree_format = tree_formats.load(name) if name else None
    format_names: dict[str, str | None] = {}  # suffix -> name
    for suffix in {PurePosixPath(path).suffix.lower() for path in listing.paths}:
        if tree_format is None:
            format_names[suffix] = tree_formats.by_suffix(f"x{suffix}")
        else:
            fits = in_parquet or listing.chosen or tree_format.reads(suffix)
            variant = tree_format.variant_of(suffix) if tree_format.variants and tree_format.variant is None else None
            format_names[suffix] = (f"{name}-{variant}" if variant else name) if fits else None
    plan = {
        path: format_name
        for path in listing.paths
        if (format_name := format_names[PurePosixPath(path).suffix.lower()]) is not None
    }
    if not plan:
        what = f"no file of the format {name}" if name else "no file of a known format"
        raise DataError(what, got=listing.counts(), fix="name a file, or choose the format with `format`")
    if len(plan) > _MOST_FILES:
        fix = "take a part of them, or write the texts into a Parquet file (`column`)"
        raise DataError("too many files", got=f"{len(plan):,}", allowed=f"{_MOST_FILES:,}", fix=fix)
    counts = Counter(plan.values())
    if len(counts) > 1 and name is None:
        got = ", ".join(f"{format_name}: {count:,}" for format_name, count in sorted(counts.items()))
        raise UsageError("files of several formats", got=got, allowed="one format", fix="choose one with `format`")
    return plan


class _Reader:
    """Reads the files of a source into `source`, within the limits."""

    def __init__(self, listing: TreeFiles, plan: dict[str, str], unit: str | None, skip_bad: bool) -> None:
        """Load the formats. Raises `UsageError` if one cannot be used, or does not have the unit."""
        self.listing, self.plan, self.skip_bad = listing, plan, skip_bad
        self.formats: dict[str, TreeFormat] = {name: tree_formats.load(name) for name in sorted(set(plan.values()))}
        name = min(self.formats)  # of several languages, all have the same units
        self.unit = tree_formats.chosen_unit(name, self.formats[name], unit)
        self.source = TreeSource(_fit(listing.name), list(self.formats), "subtree" if unit == "subtree" else self.unit)
        self.nodes = self.count = 0

    def read(self, in_parquet: bool, column: str | None) -> TreeSource:
        """Read all files. The texts of a Parquet file are in its column `column`."""
        for path in self.plan:
            before = self.nodes, self.count, self.formats.copy()
            try:
                if path != _shown(path):  # a manifest cannot store it
                    raise DataError("its name is not UTF-8 text", fix="rename it")
                try:
                    content = files.read_bytes(self.listing.base / path, _FILE_BYTES)
                except OSError as error:
                    raise DataError(error.strerror or str(error), fix=remedy(error)) from error
                if in_parquet:
                    trees = list(self._rows(path, content, column))
                else:
                    trees = [(tree.document, tree) for tree in self._trees(path, content)]
            except DataError as error:
                if not self.skip_bad:
                    more = ", or add `skip_bad`" * (len(self.plan) > 1)
                    what, fix = f"cannot read {self.listing.base / path}", error.fix or f"correct it{more}"
                    raise DataError(what, got=error.summary, allowed=error.allowed, fix=fix) from error
                self.source.skipped.append((_shown(path), error.summary))
                self.nodes, self.count, self.formats = before  # its trees are not kept
                continue
            number = len(self.source.files)
            self.source.files[path] = hashlib.sha256(content).hexdigest()
            self.source.trees += [(number, document, tree) for document, tree in trees]
        if not self.source.trees:
            first = "".join(f"; {path}: {why}" for path, why in self.source.skipped[:1])
            got = f"{self.listing.counts()}{first}"
            raise DataError(f"no tree in the source (unit {self.source.unit})", got=got, fix="choose another `source`")
        self.source.skipped += [(_shown(path), why) for path, why in self.listing.left_out.items()]
        self.source.skipped.sort()
        return self.source

    def _trees(self, path: str, content: bytes) -> Iterator[ParsedTree]:
        """The trees of a document or a file. Raises `DataError` if it cannot be read."""
        form = copy(self.formats[self.plan[path]])  # what it learns from a bad document is forgotten
        form.suffix = PurePosixPath(path).suffix.lower()
        if len(content) > form.most_bytes:
            raise DataError(f"it has {len(content):,} bytes", allowed=f"{form.most_bytes:,} bytes for its parser")
        try:
            trees = form.trees(content, self.unit)
            if not isinstance(trees, Iterable):
                raise user_parts.returns(form, "trees", trees, "an iterator of `ParsedTree`")
            for number, tree in enumerate(trees, 1):
                if not isinstance(tree, ParsedTree):
                    raise user_parts.returns(form, "trees", f"{type(tree).__name__} as tree {number:,}", "`ParsedTree`")
                tree.check(number)
                if tree.levels() >= _MOST_LEVELS:
                    raise DataError(f"a tree is too deep: more than {_MOST_LEVELS:,} nodes from the root to a leaf")
                for labels in (tree.kind, tree.token):
                    labels[:] = map(sys.intern, map(str, labels))  # equal labels share memory
                self.count += 1
                self.nodes += len(tree.parent)
                check_count(self.count, self.nodes)
                yield tree
        except RecursionError as error:
            raise DataError("it is nested too deeply") from error
        self.formats[self.plan[path]] = form

    def _rows(self, path: str, content: bytes, column: str | None) -> Iterator[tuple[int, ParsedTree]]:
        """The trees of a Parquet file, each with the number of its row."""
        mark = codecs.BOM_UTF8 if self.formats[self.plan[path]].declares_encoding else b""
        for row, text in enumerate(_texts(content, column, mark)):
            try:
                if text is None:
                    raise DataError("null instead of text")
                yield from [(row, tree) for tree in self._trees(path, text)]
            except DataError as error:
                if not self.skip_bad:
                    raise DataError(f"row {row:,}: {error.summary}", allowed=error.allowed, fix=error.fix) from error
                self.source.skipped.append((_shown(f"{path} row {row}"), error.summary))


def _shown(path: str) -> str:
    r"""The name of a file as text that any file can store.

    >>> _shown("a\udcff.json")
    'a\\udcff.json'
    """
    return path.encode("utf-8", "backslashreplace").decode()


def _fit(name: str) -> str:
    """A name that a folder can have, from the name of a file or a folder.

    >>> _fit("My trees (1)"), _fit("..."), _fit("")
    ('My-trees-1', 'trees', 'trees')
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60].rstrip("-._") or "trees"


def _find(where: str) -> TreeFiles:
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
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror})"
    return "a dataset of this program" if names >= {"manifest.json", "data"} else None


def _texts(content: bytes, column: str | None, mark: bytes) -> Iterator[bytes | None]:
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
