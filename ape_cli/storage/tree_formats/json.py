"""JSON documents (RFC 8259) as trees.

An object has a child `key` for each of its keys, in the order of the file, whose only child is the value. The other
kinds are `array`, `string`, `number`, `boolean` and `null`. The token of a key or a value is its JSON text, so that
the string `"1"` and the number `1` differ.

A document whose objects have exactly the keys `label` and `children`, all the way down, is the tree that it describes.
`{"label": "S", "children": [{"label": "NP"}]}` has two nodes, `S` and `NP`. A leaf may have no `children`. Labels are
strings, or numbers. An array of such documents is several trees, each of which is a document. An array that also has
anything else is one tree like every other document.

Deviation: a key that occurs twice in an object is an error, because programs do not agree on what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, documents
from ape_cli.storage.tree_formats._json_text import json_trees
from ape_cli.storage.tree_formats._text import decoded


class JsonFormat(TreeFormat):
    """A file has one document, or an array of objects with labels and children, each of which is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of an array of trees, or the only document. The unit `file` joins those of an array."""
        found = json_trees(decoded(content))
        return documents(found, unit) if isinstance(found, list) else iter([found])
