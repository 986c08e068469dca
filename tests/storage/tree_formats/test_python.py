"""Syntax trees of Python, against the recursion over `ast.iter_child_nodes`."""

from __future__ import annotations

import ast

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import Nested, nested, parsed

CODE = """
import a.b as c
class A:
    @d
    async def f(self, x=1, *, k=None): return {**x} + f"{x!r:>3}"
    class B:
        def g(self): return [i async for i in self.y if not i]
if c:
    def h():
        def inner(): pass
        lambda z: z
x = lambda: 0
"""


def by_hand(node: ast.AST) -> tuple[str, tuple]:
    """Returns the kinds of a syntax tree."""
    below = [child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.Load, ast.Store, ast.Del))]
    return (type(node).__name__, tuple(map(by_hand, below)))


def kinds(tree: Nested) -> tuple[str, tuple]:
    return (tree[0], tuple(map(kinds, tree[2])))


def test_a_function_worked_out_by_hand() -> None:
    (tree,) = parsed("python", "def f(a, b=2):\n    return a.c + 'x'\n")
    assert tree.kind[:6] == ["FunctionDef", "arguments", "arg", "arg", "Constant", "Return"]
    assert tree.kind[6:] == ["BinOp", "Attribute", "Name", "Add", "Constant"]
    assert tree.token[:6] == ["f", "arguments", "a", "b", "2", "Return"]
    assert tree.token[6:] == ["BinOp", "c", "a", "Add", "'x'"]
    assert tree.parent == [-1, 0, 1, 1, 1, 0, 5, 6, 7, 6, 6]
    assert tree.ranks() == [0, 0, 0, 1, 2, 1, 0, 0, 0, 1, 2]


def test_functions_are_the_outermost_ones() -> None:
    trees = parsed("python", CODE)
    assert [tree.token[0] for tree in trees] == ["f", "g", "h"]
    assert "inner" in trees[2].token
    assert parsed("python", "x = 1") == []


def test_a_file_is_a_module() -> None:
    (tree,) = parsed("python", CODE, "file")
    assert kinds(nested(tree)) == by_hand(ast.parse(CODE))
    assert nested(parsed("python", "", "file")[0]) == ("Module", "Module", ())


@pytest.mark.parametrize(
    ("code", "kind", "token"),
    [
        ("import a.b as c", "alias", "a.b as c"),
        ("from ..a import b", "ImportFrom", "..a"),
        ("from . import b", "ImportFrom", "."),
        ("global a, b", "Global", "a b"),
        ("f(a=1)", "keyword", "a"),
        ("f'{a!r}'", "FormattedValue", "!r"),
        ("b'\\xff'", "Constant", "b'\\xff'"),
        ("1e999", "Constant", "inf"),
        ("0x" + "f" * 5000, "Constant", "0x" + "f" * 5000),
        ("[a async for a in b]", "comprehension", "async"),
        ("match a:\n case {'b': 1, **c}: pass", "MatchMapping", "c"),
        ("match a:\n case A(b=1, c=2): pass", "MatchClass", "b c"),
        ("match a:\n case None: pass", "MatchSingleton", "None"),
        ("'\\ud800'", "Constant", "'\\ud800'"),
    ],
)
def test_tokens(code: str, kind: str, token: str) -> None:
    (tree,) = parsed("python", code, "file")
    assert (kind, token) in list(zip(tree.kind, tree.token, strict=True))
    assert not {"Load", "Store", "Del"} & set(tree.kind)


def test_declared_encodings() -> None:
    (tree,) = parsed("python", "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), "file")
    assert "'é'" in tree.token
    (tree,) = parsed("python", b"\xef\xbb\xbfx = '\xc3\xa9'", "file")
    assert "'é'" in tree.token


DEEP = 10**6


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:", "line 1: no valid Python"),
        (b"x = '\xe9'", "it is not text in the encoding utf-8|invalid or missing encoding"),
        ("# coding: punycode\nx", "which is not supported"),
        ("(" * DEEP + "1" + ")" * DEEP, "no valid Python|nested"),
        ("if a:\n b\n" + "elif a:\n b\n" * 100_000, "nested too deeply"),
    ],
)
def test_bad_programs(code: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed("python", code)
