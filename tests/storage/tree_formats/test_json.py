"""JSON documents as trees, against the recursion over `json.loads`."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ape_cli.core.errors import DataError
from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import Nested, depths, flat, nested, parsed


def by_hand(value: Any) -> Nested:
    """Returns the tree of a value that Python's own module has read."""
    match value:
        case dict():
            keys = tuple(("key", json.dumps(key, ensure_ascii=False), (by_hand(v),)) for key, v in value.items())
            return ("object", "object", keys)
        case list():
            return ("array", "array", tuple(map(by_hand, value)))
        case bool() | None:
            kind = "null" if value is None else "boolean"
            return (kind, json.dumps(value), ())
        case str():
            return ("string", json.dumps(value, ensure_ascii=False), ())
    return ("number", repr(value), ())


def test_a_document_worked_out_by_hand() -> None:
    (tree,) = parsed("json", '\ufeff {"a": [1, "x\\u00e9"], "b": {"": null}, "c": -2.50e3}\n')
    assert tree.parent == [-1, 0, 1, 2, 2, 0, 5, 6, 7, 0, 9]
    assert tree.ranks() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0]
    assert tree.kind == ["object", "key", "array", "number", "string", "key", "object", "key", "null", "key", "number"]
    assert tree.token == ["object", '"a"', "array", "1", '"xé"', '"b"', "object", '""', "null", '"c"', "-2.50e3"]
    (tree,) = parsed("json", '{"a": 1, "a": NaN}')
    assert list(zip(tree.kind, tree.token, strict=True)) == [("object", "object"), ("key", '"a"'), ("number", "NaN")]


def drawn(draw: random.Random, depth: int) -> Any:
    """Returns a random value."""
    kind = draw.randrange(7 if depth else 5)
    if kind == 5:
        return [drawn(draw, depth - 1) for _ in range(draw.randrange(5))]
    if kind == 6:
        return {f'k{i}\n"é': drawn(draw, depth - 1) for i in range(draw.randrange(5))}
    return [None, True, False, draw.randrange(-(10**20), 10**20), f'"\\{draw.random()}\t'][kind]


@pytest.mark.parametrize("indent", [None, 1])
def test_random_documents(indent: int | None) -> None:
    draw = random.Random(3)
    for _ in range(25):
        value = [drawn(draw, 7) for _ in range(5)]
        text = json.dumps(value, indent=indent, ensure_ascii=draw.random() < 0.5)
        assert depths(*parsed("json", text)) == flat(by_hand(value))


def test_objects_with_labels_and_children_are_the_tree_that_they_describe() -> None:
    text = '{"label": "S", "children": [{"children": [{"label": 7}], "label": "NP"}, {"label": "", "children": []}]}'
    (tree,) = parsed("json", text)
    assert (tree.parent, tree.ranks()) == ([-1, 0, 1, 0], [0, 0, 0, 1])
    assert tree.kind == tree.token == ["S", "NP", "7", '""']
    (tree,) = parsed("json", '{"label": "S", "children": [{"label": "a", "children": null}]}')
    assert nested(tree) == ("S", "S", (("a", "a", ()),))


def test_an_array_of_objects_with_labels_and_children_is_several_trees() -> None:
    text = '[{"label": "S", "children": [{"label": "NP"}]},\n {"label": 7}]'
    trees = parsed("json", text)
    assert [nested(tree) for tree in trees] == [("S", "S", (("NP", "NP", ()),)), ("7", "7", ())]
    assert [tree.document for tree in trees] == [0, 1]
    (whole,) = parsed("json", text, "file")
    assert nested(whole) == ("file", "file", tuple(map(nested, trees)))
    assert [nested(tree) for tree in parsed("json", '[{"label": "S"}]')] == [("S", "S", ())]


@pytest.mark.parametrize(
    "text",
    ['{"label": "S", "children": {}}', '{"children": []}', '{"label": "S", "text": "a b"}', '[[{"label": "S"}]]'],
)
def test_other_objects_are_objects(text: str) -> None:
    (tree,) = parsed("json", text)
    assert depths(tree) == flat(by_hand(json.loads(text)))


@pytest.mark.parametrize("texts", [['{"label": "S"}', '{"name": "S"}'], ['{"name": "S"}', '{"label": "S"}']])
@pytest.mark.parametrize("name", ["json", "json-lines"])
def test_all_files_of_a_source_have_labels_or_none_has(name: str, texts: list[str]) -> None:
    kind = tree_formats.load(name)
    list(kind.trees(texts[0].encode(), "document"))
    with pytest.raises(DataError, match=r"it is (not )?a tree with labels"):
        list(kind.trees(texts[1].encode(), "document"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no valid JSON: Expecting value"),
        ("[1,\n2,]", "line 2: no valid JSON: "),
        (b"\xff", "line 1: it is not text in the encoding utf-8"),
        ('{"label": "S", "children": [1]}', "the document: it is not a tree with labels\n  got:     '1'"),
        ('{"label": "S", "children": [{"label": "a", "more": 1}]}', "the document: .*\n.*keys 'label', 'more'"),
        ('[{"label": "S"}, {"label": "T", "childs": []}]', "tree 2: .*\n.*'childs'"),
    ],
)
def test_bad_documents(text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed("json", text)
