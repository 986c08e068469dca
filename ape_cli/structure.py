"""Structures: what a position is, how positions compose, and how far apart two of them are.

A structure is an algebra of paths (paper, sections 3.1.1, 3.2.1, 3.3, 3.4), written as an expression:

    seq            the free group with one generator: the integers
    tree(k)        the free group with k generators, a branch each
    cyclic(n)      the integers modulo n: a ring of n places
    a*b, grid(n)   products, component by component; grid(n) is seq*seq*...*seq, n times

Positions are what every scheme reads: int64, one number for each simple factor. A single factor has
positions [...], a product of C has [..., C]. 0 is the empty path, which SOS has in every factor:

    seq, cyclic    tokens stand at 1, 2, ... (what a dataset stores, plus 1)
    tree(k)        a path from the root down is its heap index: the root is 1, the children of i are
                   k (i - 1) + 2 .. k (i - 1) + k + 1, so 2i and 2i + 1 for binary trees; 0 is read as 1

A heap index holds `max_depth` steps at most (62 for binary trees); whoever makes deeper ones is refused.
The functions on positions use nothing but operators, so NumPy arrays and torch tensors of int64 serve alike.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ape_cli.errors import UsageError

LINE = -1  # in `columns`: the place along the linearisation
_GREATEST = 2**63 - 1


class Structure(ABC):
    """An algebra of paths."""

    @property
    @abstractmethod
    def expression(self) -> str:
        """As it is written; `parse` reads it."""

    @property
    def simple(self) -> tuple[Structure, ...]:
        """The simple factors, one for each coordinate of a position."""
        return (self,)

    @property
    def width(self) -> int:
        """Coordinates of a position."""
        return len(self.simple)

    @property
    def first(self) -> tuple[int, ...]:
        """What is added to each coordinate that a dataset stores, so that 0 is the empty path."""
        return tuple(f for factor in self.simple for f in factor.first)

    @abstractmethod
    def distance(self, x: Any, y: Any) -> Any:
        """Steps between two positions, int64, broadcast: the length of the path x^-1 y."""

    @abstractmethod
    def compose(self, x: Any, y: Any) -> Any:
        """The path x followed by the path y; what stands at y, seen from x, stands there."""


@dataclass(frozen=True)
class Seq(Structure):
    """The sequence: paths are integers, the distance is the absolute offset."""

    @property
    def expression(self) -> str:
        return "seq"

    @property
    def first(self) -> tuple[int, ...]:
        return (1,)

    def distance(self, x: Any, y: Any) -> Any:
        return abs(x - y)

    def compose(self, x: Any, y: Any) -> Any:
        return x + y


@dataclass(frozen=True)
class Cyclic(Structure):
    """A ring of `order` places: paths are integers modulo `order`, the distance is the shorter way round."""

    order: int

    @property
    def expression(self) -> str:
        return f"cyclic({self.order})"

    @property
    def first(self) -> tuple[int, ...]:
        return (1,)

    def distance(self, x: Any, y: Any) -> Any:
        """The shorter way round, at most order // 2."""
        one_way = (x - y) % self.order
        other_way = (y - x) % self.order
        return one_way + (other_way - one_way) * (other_way < one_way)

    def compose(self, x: Any, y: Any) -> Any:
        return x + y


@dataclass(frozen=True)
class Tree(Structure):
    """Trees of `branching` children: paths are heap indices, the distance goes up to the common ancestor and down.

    Taken from 0, a heap index is the path's branches 1..k as a bijective numeral to base k, so that
    following one path by another is k^(its length) times the first plus the second.
    """

    branching: int = 2

    @property
    def expression(self) -> str:
        return f"tree({self.branching})"

    @property
    def first(self) -> tuple[int, ...]:
        return (0,)

    @property
    def max_depth(self) -> int:
        """Steps of the longest path whose whole level fits a signed 64-bit heap index."""
        depth = 0
        while self.level_start(depth + 2) - 1 <= _GREATEST:
            depth += 1
        return depth

    def level_start(self, depth: Any) -> Any:
        """The first heap index of a level: 1, 2, 4, 8, ... for binary trees."""
        if self.branching == 2:
            return 1 << depth
        return (self.branching**depth - 1) // (self.branching - 1) + 1

    def level(self, heap: Any) -> Any:
        """Depth of each heap index: 0 for the root. The 0 of SOS counts as the root."""
        if self.branching == 2:
            return bit_length(heap | (heap == 0)) - 1
        depth = heap * 0
        for d in range(1, self.max_depth + 1):
            depth = depth + (heap >= self.level_start(d))
        return depth

    def ancestor(self, heap: Any, up: Any) -> Any:
        """The heap index `up` steps above each."""
        if self.branching == 2:
            return heap >> up
        return (heap - self.level_start(up)) // self.branching**up + 1

    def branch(self, heap: Any) -> Any:
        """Which child of its parent each node is, from 0. Undefined for a root."""
        return (heap - 2) % self.branching

    def distance(self, x: Any, y: Any) -> Any:
        x, y = x | (x == 0), y | (y == 0)
        depth_x, depth_y = self.level(x), self.level(y)
        if self.branching == 2:  # by bits: nothing to wait for on a GPU
            shallow = depth_x + (depth_y - depth_x) * (depth_y < depth_x)  # the smaller of the two, broadcast
            apart = bit_length((x >> (depth_x - shallow)) ^ (y >> (depth_y - shallow)))
            return depth_x + depth_y - 2 * (shallow - apart)
        shared = depth_x * 0 + depth_y * 0
        for d in range(1, _greatest(depth_x, depth_y) + 1):
            there_x, there_y = depth_x >= d, depth_y >= d
            up_x, up_y = (depth_x - d) * there_x, (depth_y - d) * there_y
            shared = shared + ((self.ancestor(x, up_x) == self.ancestor(y, up_y)) & there_x & there_y)
        return depth_x + depth_y - 2 * shared

    def compose(self, x: Any, y: Any) -> Any:
        x, y = x | (x == 0), y | (y == 0)
        return (x - 1) * self.branching ** self.level(y) + y


@dataclass(frozen=True)
class Product(Structure):
    """A product of structures: paths component by component, the distance is the sum of the distances."""

    factors: tuple[Structure, ...]

    @property
    def expression(self) -> str:
        return "*".join(f.expression for f in self.factors)

    @property
    def simple(self) -> tuple[Structure, ...]:
        return tuple(s for factor in self.factors for s in factor.simple)

    def distance(self, x: Any, y: Any) -> Any:
        return sum(s.distance(x[..., i], y[..., i]) for i, s in enumerate(self.simple))

    def compose(self, x: Any, y: Any) -> Any:
        composed = x * 0 + y * 0
        for i, s in enumerate(self.simple):
            composed[..., i] = s.compose(x[..., i], y[..., i])
        return composed


@dataclass(frozen=True)
class Grid(Product):
    """The regular grid of `len(factors)` dimensions; its distance is the Manhattan one."""

    @property
    def expression(self) -> str:
        return f"grid({len(self.factors)})"


def bit_length(x: Any) -> Any:
    """Number of binary digits of each non-negative int64 (0 for 0), by halving the search six times."""
    length = x * 0
    for shift in (32, 16, 8, 4, 2, 1):
        big = (x >> shift) > 0
        length = length + shift * big
        x = x >> (shift * big)
    return length + x


def level(heap: Any) -> Any:
    """Depth of each heap index of a binary tree."""
    return Tree(2).level(heap)


def _greatest(x: Any, y: Any) -> int:
    """The smaller one of the two greatest elements."""
    return min(int(v.max()) if getattr(v, "shape", ()) and 0 not in v.shape else int(v or 0) for v in (x, y))


# Expressions -------------------------------------------------------------------------------------

_ALLOWED = "seq, tree(k), grid(n), cyclic(n), and products of them: seq*tree(2)"
_RANGES = {"tree": (2, 1000), "grid": (2, 16), "cyclic": (2, 2**31)}
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|\S)")


def parse(expression: str) -> Structure:
    """A structure from its expression. A `UsageError` tells where one is wrong.

    >>> parse("tree(2)").distance(4, 7)  # left-left to right-right: two up, two down
    4
    >>> parse(" seq * (tree(3) * grid(2)) ").expression
    'seq*tree(3)*grid(2)'
    """
    return _Parser(expression).whole()


class _Parser:
    """expression := factor ('*' factor)*; factor := 'seq' | NAME '(' NUMBER ')' | '(' expression ')'"""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def whole(self) -> Structure:
        found = self.product()
        if self.at < len(self.tokens):
            raise self.error(f"expected '*' or the end, found {self.tokens[self.at][0]!r}")
        if found.width > 16:
            raise UsageError("too many factors", got=f"{found.width} in {self.text!r}", allowed="16", fix="use fewer")
        return found

    def product(self) -> Structure:
        factors = [self.factor()]
        while self.peek() == "*":
            self.at += 1
            factors.append(self.factor())
        flat = tuple(f for x in factors for f in (x.factors if type(x) is Product else (x,)))
        return flat[0] if len(flat) == 1 else Product(flat)

    def factor(self) -> Structure:
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
        if not number or not re.fullmatch(r"[0-9]+", number) or not low <= int(number[:20]) <= high:
            also = " (tree(1) and grid(1) are seq)" if number == "1" and name != "cyclic" else ""
            raise self.error(f"expected a number from {low} to {high}{also}, found {number!r}")
        self.at += 1
        self.expect(")")
        if name == "grid":
            return Grid((Seq(),) * int(number))
        return Tree(int(number)) if name == "tree" else Cyclic(int(number))

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(f"expected {token!r}, found {self.peek()!r}" if self.peek() else f"expected {token!r}")
        self.at += 1

    def error(self, what: str) -> UsageError:
        place = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        return UsageError(
            f"bad structure: {what}",
            got=f"{self.text}\n{' ' * (11 + place)}^ here, at character {place + 1}",
            allowed=_ALLOWED,
            fix="mend it there",
        )


# What reads what ---------------------------------------------------------------------------------


def matches(pattern: str, found: Structure) -> bool:
    """Whether a structure is one of a pattern: `any`, `tree(k)`, `grid(n)`, `cyclic(n)`, or an expression.

    >>> matches("tree(k)", parse("tree(3)")), matches("tree(k)", parse("seq*tree(3)"))
    (True, False)
    """
    if pattern == "any":
        return True
    kinds = {"tree(k)": Tree, "grid(n)": Grid, "cyclic(n)": Cyclic}
    return type(found) is kinds[pattern] if pattern in kinds else found == parse(pattern)


def example(pattern: str) -> Structure:
    """The plainest structure of a pattern."""
    return parse(
        {"any": "seq", "tree(k)": "tree(2)", "grid(n)": "grid(2)", "cyclic(n)": "cyclic(6)"}.get(pattern, pattern)
    )


def columns(wanted: Structure, own: Structure) -> list[int] | None:
    """Where each coordinate of `wanted` is found in data of structure `own`; None if it is not there.

    A number is a coordinate of the data. `LINE` is the token's place along the linearisation, which
    any data has: `seq` can be read from it, and so can `cyclic(n)`, a quotient of the integers. The
    data's own structure is read whole or not at all.

    >>> columns(parse("seq*tree(2)"), parse("tree(2)"))  # the place in the linearisation, and the node
    [-1, 0]
    """
    mine, theirs = list(wanted.simple), list(own.simple)
    if mine == theirs:
        return list(range(len(mine)))
    atoms = list(wanted.factors) if type(wanted) is Product else [wanted]
    whole = list(own.factors) if type(own) is Product else [own]
    for parts, target in ((atoms, whole), (mine, theirs)):
        for i in range(len(parts) - len(target) + 1):
            if parts[i : i + len(target)] == target and own != Seq():
                before, after = parts[:i], parts[i + len(target) :]
                if _on_a_line(before + after, own):
                    return [LINE] * len(before) + list(range(own.width)) + [LINE] * len(after)
    return [LINE] * len(atoms) if _on_a_line(atoms, own) else None


def _on_a_line(factors: list[Structure], own: Structure) -> bool:
    """Whether all of these can be read from one line, each of them telling something that the others do not."""
    kinds = (Seq,) if any(isinstance(s, Cyclic) for s in own.simple) else (Seq, Cyclic)
    return all(isinstance(f, kinds) for f in factors) and len(set(factors)) == len(factors)
