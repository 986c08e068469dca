"""JSON lines: a document on each line."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import nested, parsed

TEXT = '{"label": ["a"]}\r\n\n["x\u2028y", 1]\n \n2'


def test_each_line_is_a_document() -> None:
    trees = parsed("json-lines", TEXT)
    assert [nested(tree) for tree in trees] == [
        ("object", "object", (("key", '"label"', (("array", "array", (("string", '"a"', ()),)),)),)),
        ("array", "array", (("string", '"x\u2028y"', ()), ("number", "1", ()))),
        ("number", "2", ()),
    ]
    assert [tree.document for tree in trees] == [0, 1, 2]
    (file,) = parsed("json-lines", TEXT, "file")
    assert nested(file) == ("file", "file", tuple(map(nested, trees)))


def test_a_bad_line_is_named() -> None:
    with pytest.raises(DataError, match="line 3: no valid JSON: Expecting"):
        parsed("json-lines", "1\n\n[2\n3]\n")


def test_lines_with_labels_and_children_are_trees() -> None:
    trees = parsed("json-lines", '{"label": "a", "children": [{"label": "b"}]}\n\n{"label": 1}\n')
    assert [nested(tree) for tree in trees] == [("a", "a", (("b", "b", ()),)), ("1", "1", ())]
    with pytest.raises(DataError, match="line 2: it is a tree with labels, but the first document of the source is"):
        parsed("json-lines", '{"kids": [], "label": "a"}\n{"label": "b"}')
