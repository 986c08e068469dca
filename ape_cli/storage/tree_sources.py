"""Sources of trees: a user's own files, whose formats are described in `tree_formats/`.

A source is a file, a folder with everything below it, or a pattern such as `folder/**/*.py`. Parquet files have a
column of texts, each of which is a document. Nothing is executed and nothing is written. Each file is read once, so
that its digest is that of the bytes that were parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from ape_cli.core import budget
from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import _tree_column, _tree_files, tree_formats
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit

_PARQUET = ".parquet"


@dataclass
class TreeSource:
    """The trees of a source, with the files that they come from."""

    name: str  # fit for the name of a folder
    formats: list[str]  # names of the formats, sorted; several only for languages of tree-sitter
    unit: Unit  # what a tree is; `subtree` if the caller cuts subtrees from these trees
    files: list[tuple[str, str]] = field(default_factory=list)  # path below the source, and SHA-256, sorted by path
    skipped: list[tuple[str, str]] = field(default_factory=list)  # path, and the reason
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

    Raises `UsageError` if the request is invalid, and `DataError` if there is no such source, if a file cannot be read,
    if there is no tree, or if the source is too large.
    """
    found = _tree_files.find(where)
    parquet = [path for path in found.paths if PurePosixPath(path).suffix.lower() == _PARQUET]
    in_parquet = bool(parquet) and (column is not None or len(parquet) == len(found.paths))
    if in_parquet:
        found = replace(found, paths=parquet)
    elif column is not None:
        raise UsageError("only a Parquet file has columns", got=f"--column {column}", fix="leave out --column")
    if in_parquet and format is None:
        raise UsageError("the texts of Parquet files need a format", got=where, fix="name it with --format")
    reader = _Reader(found, _plan(found, format, in_parquet), unit, skip_bad)
    return reader.read(in_parquet, column)


def _plan(found: _tree_files.FoundFiles, name: str | None, in_parquet: bool) -> dict[str, str]:
    """The files to read, each with the name of its format. Raises `UsageError` or `DataError` if there are none."""
    kind = tree_formats.load(name) if name else None
    known: dict[str, str | None] = {}  # suffix -> name
    for suffix in {PurePosixPath(path).suffix.lower() for path in found.paths}:
        if kind is None:
            known[suffix] = tree_formats.by_suffix(f"x{suffix}")
        else:
            fits = in_parquet or found.chosen or kind.reads(suffix)
            variant = kind.variant_of(suffix) if kind.variants and kind.variant is None else None
            known[suffix] = (f"{name}-{variant}" if variant else name) if fits else None
    plan = {path: each for path in found.paths if (each := known[PurePosixPath(path).suffix.lower()]) is not None}
    if not plan:
        raise DataError(
            f"no file of the format {name}" if name else "no file of a known format",
            got=found.told(),
            allowed=", ".join(kind.suffixes) or None if kind else "a file whose suffix tells its format",
            fix="name a file, or choose the format with --format",
        )
    length = sum(len(path.encode(errors="replace")) for path in plan)
    if len(plan) > budget.TREE_FILES or length > budget.TREE_PATHS_BYTES:
        got = f"{len(plan):,} files, whose paths have {length:,} bytes"
        allowed = f"{budget.TREE_FILES:,} files, {budget.TREE_PATHS_BYTES:,} bytes"
        fix = "take a part of them, or write the texts into a Parquet file (--column)"
        raise DataError("too many files", got=got, allowed=allowed, fix=fix)
    if len(set(plan.values())) > 1 and name is None:
        counts = [f"{each}: {sum(1 for x in plan.values() if x == each):,}" for each in sorted(set(plan.values()))]
        raise UsageError(
            "files of several formats", got=", ".join(counts), allowed="one format", fix="choose it with --format"
        )
    return plan


class _Reader:
    """Reads the files of a source into `source`, within the budget."""

    def __init__(self, found: _tree_files.FoundFiles, plan: dict[str, str], unit: str | None, skip_bad: bool) -> None:
        """Load the formats. Raises `UsageError` if one cannot be used, or does not have the unit."""
        self.found, self.plan, self.skip_bad = found, plan, skip_bad
        self.formats: dict[str, TreeFormat] = {name: tree_formats.load(name) for name in sorted(set(plan.values()))}
        units = {name: tree_formats.chosen_unit(name, kind, unit) for name, kind in self.formats.items()}
        self.units = units
        self.source = TreeSource(
            _fit(found.name), list(self.formats), "subtree" if unit == "subtree" else units[min(units)]
        )
        self.bytes = self.nodes = self.count = 0
        self.known = _Labels()

    def read(self, in_parquet: bool, column: str | None) -> TreeSource:
        """Read all files. The texts of a Parquet file are in its column `column`."""
        self.source.skipped += [(_shown(path), "a symbolic link, which is not followed") for path in self.found.links]
        self.source.skipped += [(_shown(path), "a dataset of this program") for path in self.found.datasets]
        for path, name in self.plan.items():
            counted = self.nodes, self.count
            try:
                content = _tree_files.content(self.found.base / path)
            except DataError as error:
                self._bad(path, error, named=True)
                continue
            self._spend(len(content))
            try:
                if in_parquet:
                    trees = list(self._rows(path, name, content, column))
                else:
                    trees = [(tree.document, tree) for tree in self._trees(name, content)]
            except DataError as error:
                self._bad(path, error)
                self.nodes, self.count = counted  # its trees are not kept
                continue
            number = len(self.source.files)
            self.source.files.append((path, hashlib.sha256(content).hexdigest()))
            self.source.trees += [(number, document, tree) for document, tree in trees]
        self.source.skipped.sort()
        self._check_any()
        return self.source

    def _trees(self, name: str, content: bytes) -> Iterator[ParsedTree]:
        """The trees of a document or a file. Raises `DataError` if it cannot be read."""
        try:
            for tree in self.formats[name].trees(content, self.units[name]):
                depth = tree.depth()
                if depth > budget.TREE_DEPTH:
                    got, allowed = f"{depth:,} nodes from the root to a leaf", f"{budget.TREE_DEPTH:,}"
                    raise DataError("a tree is too deep", got=got, allowed=allowed)
                tree.kind[:] = map(self.known.__getitem__, tree.kind)
                tree.token[:] = map(self.known.__getitem__, tree.token)
                self._count(tree)
                yield tree
        except RecursionError as error:
            raise DataError("it is nested too deeply") from error

    def _count(self, tree: ParsedTree) -> None:
        """Count a tree. Raises `DataError` if there are too many, or if they have too many nodes."""
        self.count += 1
        self.nodes += len(tree.parent)
        if self.count > budget.TREES:
            raise _ExceededError("trees", self.count, budget.TREES)
        if self.nodes > budget.TREE_NODES:
            raise _ExceededError("nodes of trees", self.nodes, budget.TREE_NODES)

    def _rows(self, path: str, name: str, content: bytes, column: str | None) -> Iterator[tuple[int, ParsedTree]]:
        """The trees of a Parquet file, each with the number of its row. Rows of equal texts have the same trees."""
        known: dict[bytes, list[ParsedTree]] = {}  # by the digest of their text
        for row, text in enumerate(_tree_column.texts(content, column)):
            try:
                if text is None:
                    raise DataError("a null instead of a text")
                self._spend(len(text))
                digest = hashlib.blake2b(text, digest_size=16).digest()
                if digest in known:
                    for tree in known[digest]:
                        self._count(tree)
                else:
                    known[digest] = list(self._trees(name, text))
            except DataError as error:
                if self.skip_bad:
                    self._bad(f"{path} row {row}", error)
                    continue
                raise (
                    error
                    if isinstance(error, _ExceededError)
                    else DataError(f"row {row:,}: {error.summary}", allowed=error.allowed, fix=error.fix)
                ) from error
            yield from ((row, tree) for tree in known[digest])

    def _bad(self, path: str, error: DataError, named: bool = False) -> None:
        """Note why a file cannot be read, or raise `DataError`. `named` says that the error names the file."""
        if isinstance(error, _ExceededError):
            raise error
        if not self.skip_bad:
            if named:
                raise error
            raise DataError(
                f"cannot read {self.found.base / path}",
                got=error.summary,
                allowed=error.allowed,
                fix=error.fix or "correct it, or leave out such files with --skip-bad",
            ) from error
        self.source.skipped.append((_shown(path), str(error.got) if named else error.summary))

    def _spend(self, size: int) -> None:
        """Count bytes that are read. Raises `DataError` if there are too many."""
        self.bytes += size
        if self.bytes > budget.TREE_BYTES:
            raise _ExceededError("bytes of files", self.bytes, budget.TREE_BYTES)

    def _check_any(self) -> None:
        """Raise `DataError` if no file could be read, or if there is no tree."""
        if self.source.trees:
            return
        bad = [entry for entry in self.source.skipped if entry[0] not in (*self.found.links, *self.found.datasets)]
        if bad:
            path, reason = bad[0]
            got = f"{len(bad):,} that cannot be read; the first is {path}: {reason}"
            raise DataError("the source has no file that can be read", got=got, fix="choose another source or --format")
        raise DataError(
            f"the source has no tree of the unit {self.source.unit}",
            got=self.found.told(),
            fix="choose another --unit or --format",
        )


class _Labels(dict[str, str]):
    """Each label of a source once, so that equal ones share memory."""

    def __missing__(self, text: str) -> str:
        """Add a label. Raises `DataError` if no file can store it."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError("a text has half of a character (a surrogate)", got=ascii(text[:80])) from error
        self[text] = text
        return text


class _ExceededError(DataError):
    """The source as a whole is too large."""

    def __init__(self, what: str, got: int, allowed: int) -> None:
        """Say which limit it exceeds."""
        super().__init__(
            f"the source has too many {what}", got=f"{got:,} or more", allowed=f"{allowed:,}", fix="take a part of it"
        )


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
