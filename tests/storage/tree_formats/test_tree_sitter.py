"""Syntax trees of tree-sitter, in JavaScript."""

from __future__ import annotations

import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import tree_formats
from tests.storage.tree_formats.reading import Nested, nested, parsed

NAME = "tree-sitter-javascript"

pytest.importorskip("tree_sitter_javascript")


def node(kind: str, *below: Nested, token: str | None = None) -> Nested:
    return (kind, token or kind, below)


def test_a_program_worked_out_by_hand() -> None:
    (tree,) = parsed(NAME, "a = b - 1;  // c\nf('x')\n")
    name = [node("identifier", token=each) for each in "abf"]
    binary = node("binary_expression", name[1], node("number", token="1"), token="-")
    string = node("string", node("string_fragment", token="x"))
    assert nested(tree) == node(
        "program",
        node("expression_statement", node("assignment_expression", name[0], binary)),
        node("expression_statement", node("call_expression", name[2], node("arguments", string))),
    )
    assert tree.parent == [-1, 0, 1, 2, 2, 4, 4, 0, 7, 8, 8, 10, 11]
    assert tree.ranks() == [0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0]


def test_names_and_suffixes() -> None:
    assert tree_formats.by_suffix("a.js") == NAME
    assert tree_formats.by_suffix("a.h") == "tree-sitter-c"
    assert tree_formats.by_suffix("a.py") == "python"
    assert tree_formats.load(NAME).reads(".mjs")
    assert not tree_formats.load(NAME).reads(".py")
    assert tree_formats.load("tree-sitter").reads(".rs")
    with pytest.raises(UsageError, match=r"needs tree-sitter-klingon.*\n.*pip install .*tree-sitter\]'"):
        tree_formats.load("tree-sitter-klingon")
    with pytest.raises(UsageError, match="needs a language"):
        parsed("tree-sitter", "a")


@pytest.mark.parametrize("name", ["tree-sitter-../x", "tree-sitter-"])
def test_a_name_that_is_no_language_is_not_imported(name: str) -> None:
    with pytest.raises(UsageError):
        tree_formats.load(name)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("a;\nfunction (", "no valid javascript"),
        ("(" * 10**6, "no valid javascript"),
        (b"'\xff'", "line 1: it is not text"),
    ],
)
def test_bad_programs(code: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed(NAME, code)
