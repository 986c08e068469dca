"""JSON lines: each line of a file is a JSON document. `json.py` describes its tree. Empty lines are left out."""

from __future__ import annotations

import io
from collections.abc import Iterator

from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats import ParsedTree, Unit, damaged, documents
from ape_cli.storage.tree_formats.json import JsonFormat, is_labelled, json_value


class JsonLinesFormat(JsonFormat):
    """A line that is not empty is a document."""

    suffixes = (".jsonl", ".ndjson")
    most_bytes = 256 * 2**20

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of a file, or all of them under a root `file`."""
        return documents(self._lines(content), unit)

    def _lines(self, content: bytes) -> Iterator[ParsedTree]:
        """The tree of each line. Raises `DataError` if a line is no JSON, or too long."""
        for number, line in enumerate(io.BytesIO(content), 1):
            if len(line) > JsonFormat.most_bytes:
                raise damaged(f"it has more than {JsonFormat.most_bytes:,} bytes", number)
            if line.strip():
                try:
                    value = json_value(line.strip())
                except DataError as error:
                    raise damaged(error.summary.removeprefix("line 1: "), number) from error
                yield self.tree(value, f"line {number:,}", is_labelled(value))
