"""Algebraic expressions, against SymPy's own parser, which only these tests call and only on their own texts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ape_cli.core.errors import DataError
from tests.storage.tree_formats.reading import Nested, depths, flat, nested, parsed

sympy = pytest.importorskip("sympy")


def node(kind: str, *below: Nested, token: str | None = None) -> Nested:
    return (kind, token or kind, below)


def whole(value: int) -> Nested:
    return node("Integer", token=str(value))


def symbol(name: str) -> Nested:
    return node("Symbol", token=name)


def test_expressions_worked_out_by_hand() -> None:
    text = "# a comment\nx**2 - 3*y/2\n\n  -sin(f(x, pi)) + 1 # and another\n"
    first, second = parsed("algebra", text)
    quotient = node("Mul", whole(-1), whole(3), symbol("y"), node("Pow", whole(2), whole(-1)))
    assert nested(first) == node("Add", node("Pow", symbol("x"), whole(2)), quotient)
    assert first.parent == [-1, 0, 1, 1, 0, 4, 4, 4, 4, 8, 8]
    assert first.rank == [0, 0, 0, 1, 1, 0, 1, 2, 3, 0, 1]
    sine = node("sin", node("f", symbol("x"), node("Pi", token="pi")))
    assert nested(second) == node("Add", node("Mul", whole(-1), sine), whole(1))
    assert [first.document, second.document] == [0, 1]
    (file,) = parsed("algebra", text, "file")
    assert nested(file) == node("file", nested(first), nested(second))


def test_one_of_each() -> None:
    for text, wanted in {
        "2.50": node("Float", token=str(sympy.Float(2.5))),
        "x": symbol("x"),
        "0": whole(0),
        "+x": symbol("x"),
        "-7": node("Mul", whole(-1), whole(7)),
        "sqrt(x)": node("Pow", symbol("x"), node("Rational", token="1/2")),
        "x - (y - z)": node(
            "Add", symbol("x"), node("Mul", whole(-1), node("Add", symbol("y"), node("Mul", whole(-1), symbol("z"))))
        ),
        "x*0 + 1*1": node("Add", node("Mul", symbol("x"), whole(0)), node("Mul", whole(1), whole(1))),
        "E + I + oo": node(
            "Add", node("Exp1", token="E"), node("ImaginaryUnit", token="I"), node("Infinity", token="oo")
        ),
        "lambdify(x)": node("lambdify", symbol("x")),
    }.items():
        assert nested(*parsed("algebra", text)) == wanted, text


def by_hand(found: object) -> Nested:
    """Returns the tree of an object of SymPy."""
    kind = type(found).__name__
    kind = {"One": "Integer", "Zero": "Integer", "NegativeOne": "Integer", "Half": "Rational"}.get(kind, kind)
    return (kind, kind if found.args else str(found), tuple(map(by_hand, found.args)))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "x + y + z + 1",
        "x*y*z*2",
        "x - y",
        "x/y",
        "x + (y + (z + x))",
        "(x + y)*(x - y)**2",
        "sin(x)**2 + cos(x)**2",
        "exp(x*y)/log(z)",
        "x**y**z",
        "f(x, y + 1)*3",
        "x*(y*(z*2))",
        "Abs(x) - atan2(x, y)",
    ],
)
def test_trees_are_those_of_sympy(text: str) -> None:
    from sympy.parsing.sympy_parser import parse_expr

    names = {"f": sympy.Function("f")}
    assert depths(*parsed("algebra", text)) == flat(by_hand(parse_expr(text, local_dict=names, evaluate=False)))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {0}')",
        "().__class__.__bases__[0]",
        "open('{0}', 'w')",
        "[x for x in y]",
        "(lambda: 1)()",
        "x.__class__",
        "f(*x)",
        "f(x=1)",
        "f()",
        'f\'{{open("{0}", "w")}}\'',
        "(a := 1)",
        "'text'",
        "True",
        "1j",
    ],
)
def test_nothing_is_executed(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"^line 1: .*(is no algebra)"):
        parsed("algebra", text.format(tmp_path / "made"))
    assert not (tmp_path / "made").exists()


def test_nothing_is_evaluated() -> None:
    started = time.process_time()
    for text in (
        "9**9**9**9",
        "2**(10**10)",
        "factorial(10**9)",
        "exp(10**400)",
        "sin(10**4000)",
        "binomial(10**9, 10**8)",
    ):
        assert parsed("algebra", text)
    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x +", "line 1: no valid Python"),
        ("x\ny z", "line 2: no valid Python"),
        ("x\n\nx^2", r"line 3: `\^` is no algebra"),
        ("x = 1", "line 1: no valid Python"),
        ("x == 1", "Compare is no algebra"),
        ("sin(x, y)", "sin has 1 arguments, got 2"),
        ("1e999", "a number is too large"),
        ("0x" + "f" * 10_000, "a number is too large"),
        ("1" * 5000, "no valid Python"),
        ("(" * 60_000, "no valid Python"),
        ("-" * 60_000 + "x", "nested too deeply"),
        ("x" + "+x" * 30_000, "nested too deeply"),
        ("x" + "+x" * 1_000, "more than 1,000 operations in each other"),
        ("(" * 10**6 + ")" * 10**6, "an expression of more than 65,536 characters"),
        (b"\xff", "line 1: it is not text"),
    ],
)
def test_bad_expressions(text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parsed("algebra", text)


def test_a_deep_expression_that_is_allowed() -> None:
    (tree,) = parsed("algebra", "x" + "+x" * 900)
    assert len(tree.parent) == 902
    (tree,) = parsed("algebra", "sin(" * 150 + "x" + ")" * 150)
    assert tree.depth() == 151
