"""JSON lines: each line of a file is a JSON document, a tree as `json_plain.py` describes. Empty lines are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, documents
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded, lines_of


class JsonLinesPlainFormat(TreeFormat):
    """A line that is not empty is a document."""

    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of a file, or all of them under a root `file`."""
        lines = enumerate(lines_of(decoded(content)), 1)
        return documents((json_tree(text, line) for line, text in lines if text.strip(" \t\r")), unit)
