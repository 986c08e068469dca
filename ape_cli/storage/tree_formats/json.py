"""JSON documents (RFC 8259) as trees.

A document whose root has no other keys than `label` and `children` is the tree that it describes, and so are all of its
objects. `{"label": "S", "children": [{"label": "NP"}]}` has two nodes, `S` and `NP`. A leaf may have no `children`, or
null. Labels are strings, or numbers. An array with such objects is several trees, each of which is a document.

Any other document is one tree of its objects, keys and values. An object has a child `key` for each of its keys, in the
order of the file, whose only child is the value. The other kinds are `array`, `string`, `number`, `boolean` and `null`.
The token of a key or a value is its JSON text, so that the string `"1"` and the number `1` differ.

The first document of a source says which of the two all of its documents are. Another one is an error.

As in Python's own module, `NaN` and infinity are numbers, and of a key that occurs twice, the last value counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from ape_cli.core.errors import DataError, brief
from ape_cli.storage.tree_formats import ParsedTree, TreeFormat, Unit, damaged, decoded, documents

_KEYS = {"label", "children"}


class JsonFormat(TreeFormat):
    """A file has one document, or an array of objects with labels and children, each of which is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    units = ("document", "file")
    most_bytes = 32 * 2**20

    labelled: bool | None = None  # whether the documents of the source are trees with labels

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The documents of an array of trees, or the only document. The unit `file` joins those of an array."""
        value = json_value(content)
        if isinstance(value, list) and is_labelled(value):
            return documents([self.tree(item, f"tree {number:,}", True) for number, item in enumerate(value, 1)], unit)
        return iter([self.tree(value, "the document", is_labelled(value))])

    def tree(self, value: Any, where: str, labelled: bool) -> ParsedTree:
        """The tree of a document. `where` names it in errors. `labelled`: whether it is meant as a tree with labels.

        Raises `DataError` if it is not of the same kind as the documents before it.
        """
        if self.labelled is None and value != []:
            self.labelled = labelled
        if labelled and not self.labelled:
            what = f"{where}: it is a tree with labels, but the first document of the source is not"
            raise DataError(what, fix="correct whichever is wrong: a tree has only the keys `label` and `children`")
        tree = ParsedTree()
        if self.labelled:
            _add_labelled(tree, -1, value, where)
        else:
            _add(tree, -1, value)
        return tree


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def json_value(content: bytes) -> Any:
    """The value of a JSON document, in which numbers are texts. Raises `DataError` if the content is not one."""
    text = decoded(content)
    try:
        return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except json.JSONDecodeError as error:
        raise damaged(f"no valid JSON: {error.msg}", error.lineno) from error


def _text(value: str) -> str:
    """The JSON text of a string or a number."""
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _add(tree: ParsedTree, parent: int, value: Any) -> None:
    """Add a value with its objects, keys and values."""
    match value:
        case dict():
            number = tree.add(parent, "object")
            for key, below in value.items():
                _add(tree, tree.add(number, "key", _text(key)), below)
        case list():
            number = tree.add(parent, "array")
            for below in value:
                _add(tree, number, below)
        case str():
            tree.add(parent, "number" if isinstance(value, _Number) else "string", _text(value))
        case _:
            tree.add(parent, "null" if value is None else "boolean", json.dumps(value))


def is_labelled(value: Any) -> bool:
    """Whether a value is a tree with labels, as far as its root tells, or an array with such a tree."""
    return _is_node(value) or (isinstance(value, list) and any(map(_is_node, value)))


def _is_node(value: Any) -> bool:
    """Whether a value is an object with a label, and with children if it is not a leaf."""
    labelled = isinstance(value, dict) and value.keys() <= _KEYS and isinstance(value.get("label"), str)
    return labelled and isinstance(value.get("children"), list | None)


def _add_labelled(tree: ParsedTree, parent: int, value: Any, where: str) -> None:
    """Add an object with a label and children. Raises `DataError` with `where` it is if it is something else."""
    if not _is_node(value):
        allowed = "objects with a `label` and, if they are not leaves, with `children`; no other key"
        got = f"the keys {', '.join(map(brief, value))}" if isinstance(value, dict) else brief(value)
        raise DataError(f"{where}: it is not a tree with labels", got=got, allowed=allowed)
    number = tree.add(parent, str(value["label"]) or '""')
    for below in value.get("children") or ():
        _add_labelled(tree, number, below, where)
