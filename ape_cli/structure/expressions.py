"""Expressions of structures: parsing them, matching patterns, and finding their coordinates in data."""

from __future__ import annotations

import re
from functools import cache

from ape_cli.core import escaping
from ape_cli.core.errors import Lines, UsageError
from ape_cli.structure.algebras import Cyclic, Grid, Product, Seq, Structure, Tree

LINE = -1  # what `columns` gives for the place along the linearisation

_ALLOWED = "seq, tree(k), grid(n), cyclic(n), and products of them: seq*tree(2)"
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
    factor     := 'seq' | NAME '(' NUMBER ')' | '(' expression ')'
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
        found = self.product()
        if self.at < len(self.tokens):
            raise self.error(f"expected '*' or the end, found {self.tokens[self.at][0]!r}")
        if found.width > 16:
            raise UsageError("too many factors", got=f"{found.width} in {self.text!r}", allowed="16", fix="use fewer")
        return found

    def product(self) -> Structure:
        """Parse an expression. Nested products are flattened, and a product of `seq` alone becomes a `Grid`."""
        factors = [self.factor()]
        while self.peek() == "*":
            self.at += 1
            factors.append(self.factor())
        flat = tuple(f for x in factors for f in (x.factors if type(x) is Product else (x,)))
        if len(flat) > 1 and all(isinstance(f, Seq) for f in flat):
            return Grid(flat)  # so that each algebra has one representation
        return flat[0] if len(flat) == 1 else Product(flat)

    def factor(self) -> Structure:
        """Parse a factor."""
        name = self.peek()
        if name == "(":
            self.at += 1
            inside = self.product()
            self.expect(")")
            return inside
        if name == "seq":
            self.at += 1
            return Seq()
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
def matches(pattern: str, found: Structure) -> bool:
    """Whether a structure matches a pattern: `any`, `tree(k)`, `grid(n)`, `cyclic(n)`, or an expression.

    Raises `UsageError` if the pattern is an expression that is not valid.

    >>> matches("tree(k)", parse_structure("tree(3)")), matches("tree(k)", parse_structure("seq*tree(3)"))
    (True, False)
    """
    if pattern == "any":
        return True
    kinds = {"tree(k)": Tree, "grid(n)": Grid, "cyclic(n)": Cyclic}
    return type(found) is kinds[pattern] if pattern in kinds else found == parse_structure(pattern)


def example(pattern: str) -> Structure:
    """The simplest structure that matches a pattern. Raises `UsageError` if the pattern is no valid expression."""
    return parse_structure(
        {"any": "seq", "tree(k)": "tree(2)", "grid(n)": "grid(2)", "cyclic(n)": "cyclic(6)"}.get(pattern, pattern)
    )


def columns(wanted: Structure, own: Structure) -> list[int] | None:
    """Where each coordinate of `wanted` is found in data of structure `own`, or None if the data does not have it.

    Each number is the index of a coordinate of the data, or `LINE`, which is the token's place along the
    linearisation. All data has such a place. `seq` can be read from it, and so can `cyclic(n)`, which is a quotient
    of the integers. The data's own structure has to be read completely or not at all.

    >>> columns(parse_structure("seq*tree(2)"), parse_structure("tree(2)"))  # place in the linearisation, node
    [-1, 0]
    """
    mine, theirs = list(wanted.simple), list(own.simple)
    if mine == theirs:
        return list(range(len(mine)))
    atoms = list(wanted.factors) if type(wanted) is Product else [wanted]
    whole = list(own.factors) if type(own) is Product else [own]
    for i in range(len(atoms) - len(whole) + 1):
        if atoms[i : i + len(whole)] == whole and own != Seq():
            before, after = atoms[:i], atoms[i + len(whole) :]
            if _on_a_line(before + after, own):
                return [LINE] * len(before) + list(range(own.width)) + [LINE] * len(after)
    return [LINE] * len(atoms) if _on_a_line(atoms, own) else None


def _on_a_line(factors: list[Structure], own: Structure) -> bool:
    """Whether all factors can be read from the place along the linearisation, with no two of them alike."""
    kinds = (Seq,) if any(isinstance(s, Cyclic) for s in own.simple) else (Seq, Cyclic)
    return all(isinstance(f, kinds) for f in factors) and len(set(factors)) == len(factors)
