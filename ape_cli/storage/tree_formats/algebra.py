"""Algebraic expressions as SymPy's expression trees. It needs the package sympy, `pip install 'ape-cli[sympy]'`.

Each line has one expression, such as `x**2 + 3*sin(y)`. Empty lines and lines that begin with `#` are left out. The
kind of a node is the name of SymPy's class, for example `Add`. All whole numbers are `Integer`, all fractions
`Rational`. The token is the symbol or the number.

An expression is never executed and nothing is simplified. Python's `ast` parses it, only the node types below are
accepted, and SymPy's objects are built with `evaluate=False`. As SymPy itself does, a difference becomes
`a + (-1)*b`, a quotient `a * b**(-1)`, and sums and products of several terms are one node.

| written | meaning |
|---|---|
| `+`, `-`, `*`, `/`, `**` | sum, difference, product, quotient, power |
| numbers | whole numbers and decimals, in double precision |
| `pi`, `E`, `I`, `oo` | SymPy's constants |
| `sin(x)` | one of SymPy's functions in `_FUNCTIONS`, else an unknown function of that name |
| other names | symbols |
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage.tree_formats._format import ParsedTree, TreeFormat, Unit, documents
from ape_cli.storage.tree_formats._programs import parsed_expression
from ape_cli.storage.tree_formats._text import damaged, decoded, lines_of

_FUNCTIONS = {  # functions of SymPy, and how many arguments each has
    **dict.fromkeys(("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "coth", "sech", "csch", "asinh", "acosh", "atanh", "acoth"), 1),
    **dict.fromkeys(("exp", "log", "Abs", "sign", "floor", "ceiling", "factorial", "gamma", "erf"), 1),
    **dict.fromkeys(("re", "im", "arg", "conjugate", "Heaviside"), 1),
    **dict.fromkeys(("atan2", "binomial", "beta"), 2),
}
_CONSTANTS = ("pi", "E", "I", "oo")
_DIGITS = 4300  # of a whole number; Python refuses to write more
_BITS = int(_DIGITS * math.log2(10))


class AlgebraFormat(TreeFormat):
    """A line is a document."""

    suffixes: ClassVar[tuple[str, ...]] = (".algebra",)
    units: ClassVar[tuple[Unit, ...]] = ("document", "file")
    needs: ClassVar[str | None] = "sympy"
    extra: ClassVar[str | None] = "sympy"

    def trees(self, content: bytes, unit: Unit) -> Iterator[ParsedTree]:
        """The expressions of a file, or all of them under a root `file`."""
        return documents(_expressions(decoded(content)), unit)


def _expressions(text: str) -> Iterator[ParsedTree]:
    """The tree of each expression. Raises `DataError` with the line of an expression that is not valid."""
    for line, content in enumerate(lines_of(text), 1):
        written = content.strip()
        if not written or written.startswith("#"):
            continue
        if len(written) > budget.LINE_BYTES:
            raise damaged(f"an expression of more than {budget.LINE_BYTES:,} characters", line)
        try:
            tree = _tree(_built(parsed_expression(written)))
        except DataError as error:
            raise damaged(error.summary.removeprefix("line 1: "), line) from error
        yield tree


def _built(root: ast.expr) -> Any:
    """The object of SymPy for an expression. Raises `DataError` if it has anything but algebra."""
    built: list[Any] = []  # the objects whose node is not built yet, from the left
    stack = [(root, False, 1)]
    while stack:
        node, ready, depth = stack.pop()
        below = _operands(node)
        if depth > budget.TREE_DEPTH:
            raise damaged(f"more than {budget.TREE_DEPTH:,} operations in each other")
        if not ready and below:
            stack.append((node, True, depth))
            stack += [(operand, False, depth + 1) for operand in reversed(below)]
            continue
        first = len(built) - len(below)
        built[first:] = [_made(node, built[first:])]
    return built[0]


def _operands(node: ast.expr) -> list[ast.expr]:
    """The operands of a node. Raises `DataError` if it is no algebra."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right):
            return [left, right]
        case ast.UnaryOp(ast.UAdd() | ast.USub(), operand):
            return [operand]
        case ast.Call(ast.Name(), arguments, []) if arguments:
            return arguments
        case ast.Name() | ast.Constant():
            return []
        case ast.BinOp(_, ast.BitXor(), _):
            raise damaged("`^` is no algebra; write `**` for a power")
    raise damaged(f"{type(node).__name__} is no algebra")


def _made(node: ast.expr, operands: list[Any]) -> Any:
    """The object of SymPy for a node with these operands. Nothing is evaluated."""
    import sympy

    match node:
        case ast.Constant(value):
            return _number(value)
        case ast.Name(name):
            return getattr(sympy, name) if name in _CONSTANTS else sympy.Symbol(name)
        case ast.Call(ast.Name(name)):
            return _called(name, operands)
        case ast.UnaryOp(operator):
            return operands[0] if isinstance(operator, ast.UAdd) else _many(sympy.Mul, [sympy.Integer(-1), operands[0]])
        case ast.BinOp(_, operator, _):
            left, right = operands
            if isinstance(operator, ast.Pow):
                return sympy.Pow(left, right, evaluate=False)
            if isinstance(operator, ast.Div):
                right = sympy.Pow(right, sympy.Integer(-1), evaluate=False)
            elif isinstance(operator, ast.Sub):
                right = _many(sympy.Mul, [sympy.Integer(-1), right])
            return _many(sympy.Add if isinstance(operator, ast.Add | ast.Sub) else sympy.Mul, [left, right])
    raise AssertionError(node)  # `_operands` refuses other nodes


def _many(kind: Callable[..., Any], terms: list[Any]) -> Any:
    """A sum or a product of two terms. The terms of a sum within a sum become terms of the outer one."""
    flat = [part for term in terms for part in (term.args if type(term) is kind else (term,))]
    return kind(*flat, evaluate=False)


def _called(name: str, arguments: list[Any]) -> Any:
    """A function with its arguments. Raises `DataError` if a function of SymPy has another number of arguments."""
    import sympy

    wanted = 1 if name == "sqrt" else _FUNCTIONS.get(name)
    if wanted is None:
        return sympy.Function(name)(*arguments, evaluate=False)
    if len(arguments) != wanted:
        raise damaged(f"{name} has {wanted} arguments, got {len(arguments)}")
    if name == "sqrt":
        return sympy.Pow(arguments[0], sympy.Rational(1, 2), evaluate=False)
    return getattr(sympy, name)(*arguments, evaluate=False)


def _number(value: object) -> Any:
    """A number. Raises `DataError` for other constants, and for numbers that are too large."""
    import sympy

    if type(value) is int and value.bit_length() <= _BITS:
        return sympy.Integer(value)
    if type(value) is float and math.isfinite(value):
        return sympy.Float(value)
    if type(value) in (int, float):
        raise damaged("a number is too large")
    raise damaged(f"a constant of the type {type(value).__name__} is no algebra")


def _tree(root: Any) -> ParsedTree:
    """The tree of an object of SymPy."""
    import sympy

    tree = ParsedTree()
    stack = [(root, -1)]
    while stack:
        node, parent = stack.pop()
        kind = "Integer" if node.is_Integer else "Rational" if node.is_Rational else type(node).__name__
        leaf = isinstance(node, sympy.Symbol) or not node.args
        number = tree.add(parent, kind, str(node) if leaf else None)
        stack += [(child, number) for child in reversed(node.args)]
    return tree
