"""JSON documents (RFC 8259) as trees.

An object has a child `key` for each of its keys, in the order of the file, whose only child is the value. The other
kinds are `array`, `string`, `number`, `boolean` and `null`. The token of a key or a value is its JSON text, so that
the string `"1"` and the number `1` differ.

A document whose objects have exactly the keys `label` and `children`, all the way down, is the tree that it describes.
`{"label": "S", "children": [{"label": "NP"}]}` has two nodes, `S` and `NP`. A leaf may have no `children`. Labels are
strings, or numbers.

Deviation: a key that occurs twice in an object is an error, because programs do not agree on what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded


class JsonFormat(TreeFormat):
    """A file has one document."""

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document of a file."""
        del unit  # a document is a file
        yield json_tree(decoded(content))
