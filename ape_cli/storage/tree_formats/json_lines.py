"""JSON lines: each line of a file is a JSON document. `json.py` describes its tree. Empty lines are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.core import budget
from ape_cli.storage.tree_formats._format import ParsedTree, Unit, documents
from ape_cli.storage.tree_formats._text import damaged, decoded, lines_of
from ape_cli.storage.tree_formats.json import JsonFormat, is_labelled, json_value


class JsonLinesFormat(JsonFormat):
    """A line that is not empty is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of a file, or all of them under a root `file`."""
        return documents(self._lines(decoded(content)), unit)

    def _lines(self, text: str) -> Iterator[ParsedTree]:
        """The tree of each line. Raises `DataError` if a line is no JSON, or too long."""
        for number, line in enumerate(lines_of(text), 1):
            if len(line) > budget.DOCUMENT_BYTES:
                raise damaged(f"a document of more than {budget.DOCUMENT_BYTES:,} characters", number)
            if line.strip(" \t\r"):
                value = json_value(line, number)
                yield self.tree(value, f"line {number:,}", is_labelled(value))
