"""Trees in brackets: the Penn Treebank, Lisp and Scheme."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import DataError, UsageError
from ape_cli.storage import tree_formats
from ape_cli.storage.tree_sources import read_trees
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
    first, second = parsed("s-expr-penn", PENN)
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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("(())", tag("#list")), ("(((a)))", tag("#list", tag("a"))), ("(\n(a))", tag("a"))],
)
def test_the_pair_around_a_sentence(text: str, wanted: Nested) -> None:
    assert [nested(tree) for tree in parsed("s-expr-penn", text)] == [wanted]
    (lisp,) = parsed("s-expr-lisp", text)
    assert len(lisp.parent) == text.count("(") + text.count("a") - ("a" in text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(S (NN a;b) (; ;)\n(DT y))", tag("S", tag("NN", "a;b"), tag(";", ";"), tag("DT", "y"))),
        ('(S (\'\' ") (NN "a b"))', tag("S", tag("''", '"'), tag("NN", '"a', 'b"'))),
        ("(S (SYM #|) (SYM \\))", tag("S", tag("SYM", "#|"), tag("SYM", "\\"))),
        ("(S (CD 10\N{NO-BREAK SPACE}000))", tag("S", tag("CD", "10\N{NO-BREAK SPACE}000"))),
    ],
)
def test_penn_trees_have_no_comments_and_no_strings(text: str, wanted: Nested) -> None:
    assert [nested(tree) for tree in parsed("s-expr-penn", text)] == [wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('(f "a (b\\" c" 1) ; text (\n', tag("f", '"a (b\\" c"', "1")),
        ('("" x)', tag('""', "x")),
        ("(; the label follows\n a ;;) b\n)", tag("a")),
        (r"(f #\( #\) #\; #\"x)", tag("f", r"#\(", r"#\)", r"#\;", r"#\"x")),
        (r"(f #\| #\  #\space #\\)", tag("f", r"#\|", r"#\ ", r"#\space", r"#\\")),
        ('(a #| (b #| ; |# ) " |# c)', tag("a", "c")),
        ("#!/usr/bin/sbcl --script (\n(a)", tag("a")),
        ("#!/usr/bin/guile -s (\n!#\n(a #! (b !# c #!eof)", tag("a", "c", "#!eof")),
        ('#;(b (c)) (a #;(b) #;b #;\'b #; "b)" c)', tag("a", "c")),
        ("(a #;'(b c) #;#(b) #;(b #;c) d)", tag("a", "d")),
        ("(|a (b| c\\(d x|;|y)", tag("|a (b|", "c\\(d", "x|;|y")),
        ("(a #(1 2) #'b `(c ,d ,@e))", tag("a", "#", tag("1", "2"), "#'b", "`", tag("c", ",d", ",@e"))),
        ("(eq? a '@)", tag("eq?", "a", "'@")),
        ('(a #"b c" #p"d (")', tag("a", '#"b c"', '#p"d ("')),
        ('(a"b""c"d)', tag("a", '"b"', '"c"', "d")),
    ],
)
def test_lisp(text: str, wanted: Nested) -> None:
    for name in ("s-expr-lisp", "s-expr-scheme"):
        assert [nested(tree) for tree in parsed(name, text)] == [wanted]


def test_square_brackets_are_brackets_of_scheme() -> None:
    (tree,) = parsed("s-expr-scheme", "(let ([x 1][y #\\]]) x)")
    assert nested(tree) == tag("let", tag("#list", tag("x", "1"), tag("y", "#\\]")), "x")
    for text in ("(a]", "([a)]", "[a"):
        with pytest.raises(DataError, match=r"line 1: a closing bracket without|a bracket is not closed"):
            parsed("s-expr-scheme", text)


@pytest.mark.parametrize(
    ("rules", "suffix", "text"),
    [
        ("lisp", "SEXP", '(a " b" [c]) ; ('),
        ("scheme", "scm", '(a " b" [c])'),
        ("penn", "mrg", '(a ;"\n b")'),
    ],
)
def test_the_suffix_tells_the_rules(tmp_path: Path, rules: str, suffix: str, text: str) -> None:
    (tmp_path / f"x.{suffix}").write_text(text)
    source = read_trees(str(tmp_path))
    assert source.formats == ["s-expr"]  # as before there were rules, so that data sets keep their parameters
    assert [nested(tree) for _, _, tree in source.trees] == [nested(*parsed(f"s-expr-{rules}", text))]


def test_without_a_suffix_nothing_is_guessed(tmp_path: Path) -> None:
    for sign in '";|\\':
        (tmp_path / "x.txt").write_text(f"(a\n{sign})")
        with pytest.raises(
            DataError, match=r"line 2: `.` differs .*\n  allowed: s-expr-lisp, s-expr-scheme, s-expr-penn"
        ):
            read_trees(str(tmp_path / "x.txt"), format="s-expr")
        (_, _, tree), *_ = read_trees(str(tmp_path / "x.txt"), format="s-expr-penn").trees
        assert tree.token == ["a", sign]
    with pytest.raises(UsageError, match="unknown rules of s-expr"):
        tree_formats.load("s-expr-perl")


def test_units() -> None:
    trees = [nested(tree) for tree in parsed("s-expr", "(a b)(c)")]
    for unit in ("document", "file"):
        assert nested(*parsed("s-expr", "(a b)(c)", unit)) == (unit, unit, tuple(trees))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a\n(b)", "line 1: a bracket is not closed"),
        ("\n(a))", "line 2: a closing bracket without"),
        ("(a)\nb", "line 2: text outside of brackets"),
        ('(a\n"b)', "line 2: a quotation mark is not closed"),
        ("(a\n#|b |# #| #| |#)", "line 2: a comment is not closed"),
        ("(a\n#;)", "line 2: no expression follows"),
        ('(a "' + "\\" * 10**6, "a quotation mark is not closed"),
        ("(a " + "#;" * 10**5, "maximum recursion depth exceeded|no expression follows"),
    ],
)
def test_bad_expressions(text: str | bytes, message: str) -> None:
    with pytest.raises((DataError, RecursionError), match=message):
        parsed("s-expr-lisp", text)
