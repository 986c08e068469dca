"""JSON lines: a document on each line."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import nested, parsed

TEXT = '{"label": "a"}\r\n\n["x\u2028y", 1]\n \n2'


def test_each_line_is_a_document() -> None:
    trees = parsed("json-lines", TEXT)
    assert [nested(tree) for tree in trees] == [
        ("a", "a", ()),
        ("array", "array", (("string", '"x\u2028y"', ()), ("number", "1", ()))),
        ("number", "2", ()),
    ]
    assert [tree.document for tree in trees] == [0, 1, 2]


def test_a_file_joins_its_documents() -> None:
    (tree,) = parsed("json-lines", TEXT, "file")
    assert nested(tree) == ("file", "file", tuple(nested(part) for part in parsed("json-lines", TEXT)))


def test_a_bad_line_is_named() -> None:
    with pytest.raises(DataError, match="line 3: no valid JSON: a comma"):
        parsed("json-lines", "1\n\n[2\n3]\n")
    with pytest.raises(DataError, match="line 2: no valid JSON: more than 2,000"):
        parsed("json-lines", "1\n" + "[" * 10**6)
