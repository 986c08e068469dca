"""Multiplication tables of groups in files.

A table of N elements has N lines of N entries. The entry in line i and column j is the product of the elements i and j.
It is text (UTF-8) with entries that are separated by commas, or by spaces if there is no comma; or, in a file whose
name ends in `.json`, a list of N lists. Empty lines are skipped.

- Entries that are all whole numbers are the numbers of elements, from 0 to N - 1. Their order is that of the lines.
- Other entries are names. The first line is that of the identity. So it lists the names in the order of the lines.

Shapes: N elements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ape_cli.core import budget
from ape_cli.core.errors import DataError, brief
from ape_cli.core.vocabulary import SPECIAL
from ape_cli.storage import files
from ape_cli.storage.json_files import parse_json
from ape_cli.storage.paths import local_path
from ape_cli.tasks._groups import Group, check_laws

_MOST_ELEMENTS = 256
_LONGEST_NAME = 64  # characters
_DIGITS = 9  # more digits than the number of an element can have


def read_group(text: str) -> Group:
    """Read the multiplication table of a group from a local file.

    Raises `UsageError` if no local file can have this name, and `DataError` if the file is missing, is no regular file,
    has more than 1 MiB, or is not the table of a group.
    """
    path = local_path(text)
    try:
        raw = files.read_bytes(path, budget.GROUP_TABLE_BYTES)
    except OSError as error:
        got = error.strerror or str(error)
        raise DataError(f"cannot read the table {path}", got=got, fix="name a file with the table of a group") from None
    try:
        lines = _of_json(raw) if path.suffix == ".json" else _of_text(raw)
    except (ValueError, RecursionError) as error:
        raise _bad(path, "it has another form", str(error), "lines of entries, or a list of lists in JSON") from None
    group = _of_entries(lines, path)
    check_laws(group, path)
    return group


def _of_text(raw: bytes) -> list[list[str]]:
    """The entries of each line. Raises `ValueError` if it is not UTF-8."""
    text = raw.decode("utf-8-sig")
    separator = "," if "," in text else None
    return [[entry.strip() for entry in line.split(separator)] for line in text.splitlines() if line.strip()]


def _of_json(raw: bytes) -> list[list[str]]:
    """The entries of each list. Raises `ValueError` if it is not a list of lists of numbers and texts."""
    found: Any = parse_json(raw)
    if not isinstance(found, list) or not all(isinstance(line, list) for line in found):
        raise ValueError(f"not a list of lists: {brief(found)}")
    for line in found:
        for entry in line:
            if type(entry) not in (int, str):
                raise ValueError(f"an entry that is neither a whole number nor a text: {brief(entry)}")
    return [[entry.strip() if isinstance(entry, str) else str(entry) for entry in line] for line in found]


def _of_entries(lines: list[list[str]], path: Path) -> Group:
    """The names and the products of a table. Raises `DataError` if it is not square or not closed."""
    count = len(lines)
    if not 2 <= count <= _MOST_ELEMENTS:
        raise _bad(path, "it has too few or too many lines", f"{count:,} lines", f"2 to {_MOST_ELEMENTS} lines")
    for number, line in enumerate(lines, 1):
        if len(line) != count:
            got = f"{len(line):,} entries in line {number}"
            raise _bad(path, "it is not square", got, f"{count} entries, as many as there are lines")
    if all(_is_number(entry) for line in lines for entry in line):
        lines = [[str(int(entry)) for entry in line] for line in lines]
        names = [str(i) for i in range(count)]
    else:
        names = lines[0]
        _check_names(names, path)
    place = {name: i for i, name in enumerate(names)}
    for name, line in zip(names, lines, strict=True):
        for other, entry in zip(names, line, strict=True):
            if entry not in place:
                got = f"{_cut(name)} * {_cut(other)} = {_cut(entry)}"
                raise _bad(path, "it is not closed", got, "a product that is one of the elements")
    return Group(names, np.array([[place[entry] for entry in line] for line in lines], dtype=np.int64))


def _is_number(entry: str) -> bool:
    return entry.isascii() and entry.isdecimal() and len(entry) <= _DIGITS


def _check_names(names: list[str], path: Path) -> None:
    """Check the names of the elements. Raises `DataError` if one is given twice, or cannot be the name of a symbol."""
    for name in names:
        if names.count(name) > 1:
            raise _bad(path, "its first line is not that of the identity", f"{_cut(name)} twice", "each element once")
        if not name or not name.isprintable() or len(name) > _LONGEST_NAME or name in SPECIAL:
            allowed = f"1 to {_LONGEST_NAME} printable characters, and none of {', '.join(SPECIAL)}"
            raise _bad(path, "an element cannot have this name", repr(_cut(name)), allowed)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _bad(path: Path, what: str, got: str, allowed: str) -> DataError:
    return DataError(
        f"{path} is not the multiplication table of a group: {what}", got=got, allowed=allowed, fix="correct the table"
    )
