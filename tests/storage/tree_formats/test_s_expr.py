"""Trees in brackets: the Penn Treebank and Lisp, against a recursive reader."""

from __future__ import annotations

import random

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import Nested, nested, parsed

PENN = """
( (S
    (NP-SBJ-1 (DT The) (NN cat) )
    (VP (VBD said) (`` ``) (S (-NONE- *T*-1)) (: ;) ('' ''))
    (PRT (POS 's) ('' ") )
    (. .) ))
((NP (NN a)) (NP (NN b)))
"""


def leaf(text: str) -> Nested:
    return ("#atom", text, ())


def tag(label: str, *below: Nested | str) -> Nested:
    return (label, label, tuple(leaf(each) if isinstance(each, str) else each for each in below))


def test_the_penn_treebank() -> None:
    first, second = parsed("s-expr", PENN)
    assert nested(first) == tag(
        "S",
        tag("NP-SBJ-1", tag("DT", "The"), tag("NN", "cat")),
        tag(
            "VP", tag("VBD", "said"), tag("``", "``"), tag("S", tag("-NONE-", "*T*-1")), tag(":", ";"), tag("''", "''")
        ),
        tag("PRT", tag("POS", "'s"), tag("''", '"')),
        tag(".", "."),
    )
    assert nested(second) == tag("#list", tag("NP", tag("NN", "a")), tag("NP", tag("NN", "b")))


def test_parents_and_ranks_worked_out_by_hand() -> None:
    (tree,) = parsed("s-expr", "( (S (NP (DT the) (NN cat)) (VP sat)))")
    assert tree.parent == [-1, 0, 1, 2, 1, 4, 0, 6]
    assert tree.ranks() == [0, 0, 0, 0, 1, 0, 1, 0]
    assert tree.kind == ["S", "NP", "DT", "#atom", "NN", "#atom", "VP", "#atom"]
    assert tree.token == ["S", "NP", "DT", "the", "NN", "cat", "VP", "sat"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('(f "a (b\\" c" 1) ; text (\n', tag("f", '"a (b\\" c"', "1")),
        ("(let ((x 1)) ; a comment (\n x)", tag("let", tag("#list", tag("x", "1")), "x")),
        ("(a '(b c) 'd)", tag("a", "'", tag("b", "c"), "'d")),
        ("()", tag("#list")),
        ("(())", tag("#list")),
        ("((a) b)", tag("#list", tag("a"), "b")),
        ("(((a)))", tag("#list", tag("a"))),
        ("(\n(a))", tag("a")),
        ('("" x)', tag('""', "x")),
        ("(a(b)c)", tag("a", tag("b"), "c")),
    ],
)
def test_expressions(text: str, wanted: Nested) -> None:
    assert [nested(tree) for tree in parsed("s-expr", text)] == [wanted]


def drawn(draw: random.Random, depth: int) -> tuple[str, Nested]:
    """Returns a random expression with a label, and its tree."""
    label = f"L{draw.randrange(9)}"
    parts: list[tuple[str, Nested]] = []
    for _ in range(draw.randrange(4)):
        word = f"w{draw.randrange(9)}"
        parts.append(drawn(draw, depth - 1) if depth and draw.random() < 0.6 else (word, leaf(word)))
    space = " " * draw.randrange(1, 3)
    return f"({label}{space}{space.join(text for text, _ in parts)})", tag(label, *(tree for _, tree in parts))


def test_random_expressions_are_read_back() -> None:
    draw = random.Random(5)
    made = [drawn(draw, 6) for _ in range(200)]
    trees = parsed("s-expr", "\n".join(text for text, _ in made))
    assert [nested(tree) for tree in trees] == [tree for _, tree in made]
    (document,) = parsed("s-expr", "".join(text for text, _ in made), "document")
    assert nested(document) == ("document", "document", tuple(tree for _, tree in made))
    (file,) = parsed("s-expr", "".join(text for text, _ in made), "file")
    assert nested(file)[2] == nested(document)[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a\n(b)", "line 1: a bracket is not closed"),
        ("\n(a))", "line 2: a closing bracket without"),
        ("(a)\nb", "line 2: text outside of brackets"),
        ('(a\n"b)', "line 2: a quotation mark is not closed"),
        (b"(\xff)", "it is not text"),
        ('(a "' + "\\" * 10**6, "a quotation mark is not closed"),
    ],
)
def test_bad_expressions(text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed("s-expr", text)
