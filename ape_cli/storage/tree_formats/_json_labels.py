"""JSON objects with labels and children, and the trees that they describe. `json.py` says which objects these are."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._format import ParsedTree

_KEYS = ('"label"', '"children"')  # the tokens of the keys of an object that describes a tree
_SCALARS = ("string", "number")


@dataclass(frozen=True)
class Described:
    """What a JSON value says as an object with labels and children.

    `tree` is the tree that it describes; None if it has anything else, which `fault` says then. `is_meant` is whether
    the value is meant as such a tree, even if something is wrong with it.
    """

    tree: ParsedTree | None
    fault: str
    is_meant: bool


def described(tree: ParsedTree, values: list[int]) -> list[Described]:
    """What each of the nodes `values` of a JSON document describes. `tree` is its tree of objects, keys and values."""
    keys = _keys(tree, values)
    meant = _meant(tree, keys)
    if not meant:  # a large document of another kind needs no lists of children
        return [Described(None, _fault(tree.kind[value], keys.get(value, {}), "it"), False) for value in values]
    below: list[list[int]] = [[] for _ in tree.parent]
    for number, parent in enumerate(tree.parent[1:], 1):
        below[parent].append(number)
    found = []
    for value in values:
        read = _read(tree, below, value)
        found.append(
            Described(read, "", True) if isinstance(read, ParsedTree) else Described(None, read, value in meant)
        )
    return found


class Readings:
    """Whether the files of a source have trees with labels, which all of them have to agree on."""

    def __init__(self) -> None:
        """No file is read yet."""
        self.labelled: bool | None = None

    def agree(self, labelled: bool, plain: str) -> None:
        """Note the reading of a file. Raises `DataError` if it is not that of the files before.

        `plain`: the format that reads all of them without labels.
        """
        if self.labelled is None:
            self.labelled = labelled
        if self.labelled != labelled:
            has, have = ("has", "have none") if labelled else ("has no", "have such trees")
            raise DataError(
                f"it {has} trees with labels, and the files before it {have}",
                allowed="files of one kind",
                fix=f"correct it, or read objects, keys and values as nodes: --format {plain}",
            )


def not_labelled(where: str, fault: str, plain: str) -> DataError:
    """The error for a value that should be a tree with labels.

    `where`: `tree 2` or `line 3`, for example. `plain`: the format that reads the file without labels.
    """
    return DataError(
        f"{where}: it is no tree with labels, because {fault}",
        allowed="objects with a `label`, and with `children` if they are not leaves; no other key",
        fix=f"correct it, or read objects, keys and values as nodes: --format {plain}",
    )


def _keys(tree: ParsedTree, values: list[int]) -> dict[int, dict[str, str]]:
    """The keys of each value that is an object, with the kinds of their values."""
    found: dict[int, dict[str, str]] = {value: {} for value in values if tree.kind[value] == "object"}
    of_key: dict[int, dict[str, str]] = {}
    for number, parent in enumerate(tree.parent):
        if parent in found:
            of_key[number] = found[parent]
        elif parent in of_key:
            of_key[parent][tree.token[parent]] = tree.kind[number]
    return found


def _meant(tree: ParsedTree, keys: dict[int, dict[str, str]]) -> set[int]:
    """The objects that are meant as trees. `keys` has the keys of each object that may be one.

    That is an object with a label, and with an array of children or nothing else. It is also an object with either of
    both if one of its arrays contains such an object, or one with no other keys than it has itself: the same key is
    probably misspelt everywhere.
    """
    found = {value for value, kinds in keys.items() if _has_form(kinds)}
    partly = {value for value, kinds in keys.items() if _has_label(kinds) or _has_children(kinds)} - found
    if not partly:
        return found
    arrays: dict[int, int] = {}  # each array in an object of `partly`: the object
    elements: dict[int, int] = {}  # each object in such an array: the object that has the array
    for number, parent in enumerate(tree.parent):
        if parent in arrays:
            elements[number] = arrays[parent]
        elif tree.kind[number] == "array" and parent > 0 and tree.parent[parent] in partly:
            arrays[number] = tree.parent[parent]
    inner = _keys(tree, list(elements))
    alike = {value for value, kinds in inner.items() if kinds and keys[elements[value]].keys() >= kinds.keys()}
    return found | {elements[value] for value, kinds in inner.items() if value in alike or _has_form(kinds)}


def _has_label(kinds: dict[str, str]) -> bool:
    """Whether an object has a label that is a string or a number. `kinds` are those of its values, by their keys."""
    return kinds.get(_KEYS[0]) in _SCALARS


def _has_children(kinds: dict[str, str]) -> bool:
    """Whether an object has an array of children, or null, which many programs write for a leaf."""
    return kinds.get(_KEYS[1]) in ("array", "null")


def _has_form(kinds: dict[str, str]) -> bool:
    """Whether an object has a label, and an array of children or nothing else."""
    return _has_label(kinds) and (_has_children(kinds) or len(kinds) == 1)


def _fault(kind: str, keys: dict[str, str], who: str) -> str:
    """What is wrong with a node of a tree, a value of this kind with these keys; empty if nothing is."""
    if kind != "object":
        return f"{who} is {_named(kind)}"
    label, children = (keys.get(key) for key in _KEYS)
    if other := [key for key in keys if key not in _KEYS]:
        return f"an object has the key {other[0]}"
    if label is None:
        return "an object has no `label`"
    if label not in _SCALARS:
        return f"a label is {_named(label)}"
    return "" if children in (None, "array", "null") else f"the `children` of an object are {_named(children)}"


def _named(kind: str) -> str:
    """The kind of a JSON value in words."""
    return "null" if kind == "null" else f"an {kind}" if kind in ("array", "object") else f"a {kind}"


def _read(tree: ParsedTree, below: list[list[int]], root: int) -> ParsedTree | str:
    """The tree that the value `root` describes, or what is wrong with it. `below` has the children of each node."""
    found = ParsedTree()
    stack = [(root, -1)]
    while stack:
        number, parent = stack.pop()
        kind = tree.kind[number]
        values = {tree.token[key]: below[key][0] for key in below[number]} if kind == "object" else {}
        keys = {key: tree.kind[value] for key, value in values.items()}
        if fault := _fault(kind, keys, "it" if parent < 0 else "a child"):
            return fault
        label, children = (values.get(key) for key in _KEYS)
        assert label is not None
        text = tree.token[label]
        placed = found.add(parent, (json.loads(text) if tree.kind[label] == "string" else text) or '""')
        stack += [(child, placed) for child in reversed(below[children] if children is not None else [])]
    return found
