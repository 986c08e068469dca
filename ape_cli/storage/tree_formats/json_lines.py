"""JSON lines: each line of a file is a JSON document. `json.py` describes its tree. Empty lines are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, joined
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded, lines_of


class JsonLinesFormat(TreeFormat):
    """A line that is not empty is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of a file, or all of them under a root `file`."""
        documents = _documents(decoded(content))
        if unit == "document":
            yield from documents
        else:
            yield joined("file", documents)


def _documents(text: str) -> Iterator[ParsedTree]:
    """The tree of each line that is not empty."""
    number = 0
    for line, document in enumerate(lines_of(text), 1):
        if document.strip(" \t\r"):
            tree = json_tree(document, line)
            tree.document = number
            number += 1
            yield tree
