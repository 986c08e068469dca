"""JSON lines: each line of a file is a JSON document. `json.py` describes its tree. Empty lines are left out.

Either all lines of a source are trees with labels, or none is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, documents
from ape_cli.storage.tree_formats._json_labels import Readings, described, not_labelled
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded, lines_of


class JsonLinesFormat(TreeFormat):
    """A line that is not empty is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def __init__(self, variant: str | None = None) -> None:
        """Begin a source."""
        super().__init__(variant)
        self.readings = Readings()

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of a file, or all of them under a root `file`."""
        return documents(_trees(content, self.readings), unit)


def _trees(content: bytes, readings: Readings) -> Iterator[ParsedTree]:
    """The tree of each line. Raises `DataError` if a line is no JSON, or if only some lines have labels."""
    first: tuple[int, str, bool] | None = None  # of the first tree: its line, its fault, and whether it has labels
    for line, text in enumerate(lines_of(decoded(content)), 1):
        if not text.strip(" \t\r"):
            continue
        plain = json_tree(text, line)
        (value,) = described(plain, [0])
        elements = [number for number, parent in enumerate(plain.parent) if parent == 0]
        if plain.kind[0] == "array" and any(each.is_meant for each in described(plain, elements)):
            raise not_labelled(f"line {line:,}", "it is an array of them", "json-lines-plain")
        first = first or (line, value.fault, value.is_meant)
        if value.tree is None and (value.is_meant or first[2]):
            raise not_labelled(f"line {line:,}", value.fault, "json-lines-plain")
        if value.tree is not None and not first[2]:
            raise not_labelled(f"line {first[0]:,} (line {line:,} is one)", first[1], "json-lines-plain")
        readings.agree(first[2], "json-lines-plain")
        yield value.tree or plain
