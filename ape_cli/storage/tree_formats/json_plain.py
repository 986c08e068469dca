"""JSON documents (RFC 8259) as trees of their objects, keys and values, whatever the keys are.

An object has a child `key` for each of its keys, in the order of the file, whose only child is the value. The other
kinds are `array`, `string`, `number`, `boolean` and `null`. The token of a key or a value is its JSON text, so that
the string `"1"` and the number `1` differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded


class JsonPlainFormat(TreeFormat):
    """A file has one document."""

    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The only document, which is also the tree of the unit `file`."""
        yield json_tree(decoded(content))
