"""JSON documents (RFC 8259) as trees.

A document whose objects have exactly the keys `label` and `children`, all the way down, is the tree that it describes.
`{"label": "S", "children": [{"label": "NP"}]}` has two nodes, `S` and `NP`. A leaf may have no `children`, or null.
Labels are strings, or numbers. An array of such objects is several trees, each of which is a document.

Any other document is one tree of its objects, keys and values, as `json_plain.py` describes it.

An object with a label and an array of children is meant as a tree with labels, and so is one in which only one of the
two is misspelt, even everywhere. If it has anything else, or if an array also has other values, that is an error,
because a misspelt key must not turn the trees into something else. For the same reason, either all files of a source
have trees with labels, or none has. The format `json-plain` reads such documents.

Deviation: a key that occurs twice in an object is an error, because programs do not agree on what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, documents
from ape_cli.storage.tree_formats._json_labels import Readings, described, not_labelled
from ape_cli.storage.tree_formats._json_text import json_tree
from ape_cli.storage.tree_formats._text import decoded


class JsonFormat(TreeFormat):
    """A file has one document, or an array of objects with labels and children, each of which is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")

    def __init__(self, variant: str | None = None) -> None:
        """Begin a source."""
        super().__init__(variant)
        self.readings = Readings()

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of an array of trees, or the only document. The unit `file` joins those of an array."""
        plain = json_tree(decoded(content))
        is_array = plain.kind[0] == "array"
        values = [number for number, parent in enumerate(plain.parent) if parent == 0] if is_array else [0]
        found = described(plain, values)
        meant = any(value.is_meant for value in found)
        self.readings.agree(meant, "json-plain")
        if not meant:
            return iter([plain])
        trees = []
        for number, value in enumerate(found, 1):
            if value.tree is None:
                raise not_labelled(f"tree {number:,}" if is_array else "the document", value.fault, "json-plain")
            trees.append(value.tree)
        return documents(trees, unit) if is_array else iter(trees)
