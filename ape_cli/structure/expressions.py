"""Expressions of structures: parsing them, matching patterns, and finding their coordinates in data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ape_cli.core import escaping
from ape_cli.core.errors import Lines, UsageError, brief
from ape_cli.structure.algebras import Cyclic, LinePlace, Seq, Structure, Tree
from ape_cli.structure.products import Grid, Product, product

LINE = -1  # what `columns` gives for the place along the linearisation

_ALLOWED = "seq, tree(k), grid(n), cyclic(n), line, and products of them: seq*tree(2)"
_WORDS: dict[str, Structure] = {"seq": Seq(), "line": LinePlace()}
_RANGES = {"tree": (2, 1000), "grid": (2, 16), "cyclic": (2, 2**31)}
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|\S)")


def parse_structure(expression: str | Structure) -> Structure:
    """Parse the expression of a structure. A structure is returned as it is.

    Raises `UsageError`, which shows the place of the mistake, if the expression is not valid.

    >>> parse_structure("tree(2)").distance(4, 7)  # left-left to right-right: two up, two down
    4
    >>> parse_structure(" seq * (tree(3) * grid(2)) ").expression
    'seq*tree(3)*grid(2)'
    """
    return expression if isinstance(expression, Structure) else _Parser(expression).whole()


class _Parser:
    """A recursive-descent parser of this grammar, whose methods raise `UsageError` at a mistake.

    expression := factor ('*' factor)*
    factor     := 'seq' | 'line' | NAME '(' NUMBER ')' | '(' expression ')'
    """

    def __init__(self, text: str) -> None:
        """Split an expression into tokens. Raises `UsageError` if it is longer than 200 characters."""
        if len(text) > 200:
            raise UsageError("bad structure: too long", got=f"{text[:40]}…", allowed="200 characters", fix="use fewer")
        self.text = text
        self.tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def whole(self) -> Structure:
        """Parse the whole text. Raises `UsageError` if text is left over or if there are too many factors."""
        structure = self.product()
        if self.at < len(self.tokens):
            raise self.error(f"expected '*' or the end, found {self.tokens[self.at][0]!r}")
        if structure.width > 16:
            got = f"{structure.width} in {self.text!r}"
            raise UsageError("too many factors", got=got, allowed="16", fix="use fewer")
        return structure

    def product(self) -> Structure:
        """Parse an expression. Nested products are flattened, and a product of `seq` alone becomes a `Grid`."""
        factors = [self.factor()]
        while self.peek() == "*":
            self.at += 1
            factors.append(self.factor())
        return product(tuple(factors))

    def factor(self) -> Structure:
        """Parse a factor."""
        name = self.peek()
        if name == "(":
            self.at += 1
            inside = self.product()
            self.expect(")")
            return inside
        if name in _WORDS:
            self.at += 1
            return _WORDS[name]
        if name not in _RANGES:
            raise self.error("expected a structure" + (f", found {name!r}" if name else " here, found the end"))
        self.at += 1
        self.expect("(")
        number, (low, high) = self.peek(), _RANGES[name]
        if not re.fullmatch(r"[1-9][0-9]{0,10}", number) or not low <= int(number) <= high:
            also = " (tree(1) and grid(1) are seq)" if number == "1" and name != "cyclic" else ""
            raise self.error(f"expected a number from {low} to {high}{also}, found {number!r}")
        self.at += 1
        self.expect(")")
        if name == "grid":
            return Grid((Seq(),) * int(number))
        return Tree(int(number)) if name == "tree" else Cyclic(int(number))

    def peek(self) -> str:
        """The current token, or an empty string at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def expect(self, token: str) -> None:
        """Step over this token. Raises `UsageError` if the current token is another one."""
        if self.peek() != token:
            raise self.error(f"expected {token!r}, found {self.peek()!r}" if self.peek() else f"expected {token!r}")
        self.at += 1

    def error(self, what: str) -> UsageError:
        """An error that marks the current place in the text."""
        place = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        return UsageError(
            f"bad structure: {what}",
            got=Lines(f"{escaping.one_line(self.text)}\n{' ' * (11 + place)}^ here, at character {place + 1}"),
            allowed=_ALLOWED,
            fix="correct it there",
        )


@cache
def matches(pattern: str, structure: Structure) -> bool:
    """Whether a structure matches a pattern: `any`, `tree(k)`, `grid(n)`, `cyclic(n)`, or an expression.

    Only the algebra counts, so `line` matches `seq`. Raises `UsageError` if the pattern is not a valid expression.

    >>> matches("tree(k)", parse_structure("tree(3)")), matches("tree(k)", parse_structure("seq*tree(3)"))
    (True, False)
    """
    if pattern == "any":
        return True
    kinds = {"tree(k)": Tree, "grid(n)": Grid, "cyclic(n)": Cyclic}
    algebra = structure.algebra
    return type(algebra) is kinds[pattern] if pattern in kinds else algebra == parse_structure(pattern)


def example(pattern: str) -> Structure:
    """The simplest structure that matches a pattern. Raises `UsageError` if the pattern is no valid expression."""
    return parse_structure(
        {"any": "seq", "tree(k)": "tree(2)", "grid(n)": "grid(2)", "cyclic(n)": "cyclic(6)"}.get(pattern, pattern)
    )


def factors_of(structure: Structure) -> tuple[Structure, ...]:
    """The factors of a product, or the structure itself. A grid is one factor."""
    return structure.factors if type(structure) is Product else (structure,)


def columns(read: Structure, stored: Structure) -> list[int] | None:
    """Where each coordinate of `read` is found in data of structure `stored`, or None if the data does not have it.

    Each number is the index of a coordinate of the data, or `LINE`, which is the token's place along the
    linearisation. Factors are taken from left to right:

    - A factor that the data has too is read from the data. If the data has several, the first one that is left is read.
    - Otherwise `seq` and `line` are read from the linearisation, which all data has. So is `cyclic(n)`, which is a
      quotient of the integers, unless the data has a ring of its own.
    - A factor of the data that is not wanted is left out (see `left_out`).

    A grid is read completely or not at all, and nothing is read twice.

    >>> columns(parse_structure("seq*tree(2)"), parse_structure("tree(2)"))  # place in the linearisation, node
    [-1, 0]
    >>> columns(parse_structure("tree(2)*line"), parse_structure("seq*tree(2)"))
    [1, -1]
    """
    places: list[int] = []
    on_line: list[Structure] = []
    unread = list(_coordinates(stored))
    ring = any(isinstance(s, Cyclic) for s in stored.simple)
    for factor in factors_of(read):
        match = next((each for each in unread if each[0] == factor and stored != Seq()), None)
        if match is not None:
            unread.remove(match)
            places += match[1]
        elif isinstance(factor, Seq) or (isinstance(factor, Cyclic) and not ring):
            on_line.append(factor.algebra)
            places.append(LINE)
        else:
            return None
    return places if len(set(on_line)) == len(on_line) else None


def left_out(read: Structure, stored: Structure) -> list[Structure]:
    """The factors of the data that are not read if its positions are read as `read`, if that makes positions equal.

    The list is empty if the place along the linearisation is read too, because it differs from token to token.

    >>> left_out(parse_structure("tree(2)"), parse_structure("seq*tree(2)"))
    [Seq()]
    """
    indices = columns(read, stored) or [LINE]
    if LINE in indices or stored == Seq():
        return []
    return [factor for factor, places in _coordinates(stored) if places[0] not in indices]


def _coordinates(stored: Structure) -> Iterator[tuple[Structure, list[int]]]:
    """The factors of a structure, each with the indices of its coordinates."""
    first = 0
    for factor in factors_of(stored):
        yield factor, list(range(first, first + factor.width))
        first += factor.width


def _validated(value: Any) -> Structure:
    if not isinstance(value, str | Structure):
        raise UsageError("bad structure", got=brief(value), allowed="an expression", fix="give it as text")
    return parse_structure(value)


def _expression(structure: Structure) -> str:
    return structure.expression


# a field of pydantic models: a `Structure` in memory, its expression in JSON
StructureField = Annotated[Structure, PlainValidator(_validated), PlainSerializer(_expression, return_type=str)]
