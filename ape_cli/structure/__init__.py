"""Structures: what a position is, how positions compose, and how far apart two positions are.

A structure is an algebra of paths (paper, sections 3.1.1, 3.2.1, 3.3, 3.4). It is written as an expression:

    seq            the free group with one generator: the integers
    tree(k)        the free group with k generators, one for each branch
    cyclic(n)      the integers modulo n: a ring of n places
    a*b, grid(n)   products, component by component; grid(n) is seq*seq*...*seq, n times
    line           as seq, but always the place along the linearisation, for data that has a factor seq of its own

Every scheme reads positions. They are int64, with one number for each simple factor: a structure with a single factor
has positions [...], and a product of C factors has positions [..., C]. 0 is the empty path. SOS has the position 0 in
every factor. All other tokens have these positions:

    seq, cyclic    1, 2, ... (what a dataset stores, plus 1)
    tree(k)        the heap index of the path from the root down: the root is 1, and the children of i are
                   k (i - 1) + 2 .. k (i - 1) + k + 1, so 2i and 2i + 1 for binary trees; 0 is read as 1

A heap index holds paths of at most `Tree.max_depth` steps (62 for binary trees). Tasks refuse to make deeper trees.
The methods that take positions use only operators, so they accept NumPy arrays and torch tensors of int64 alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from ape_cli.core.errors import UsageError, brief
from ape_cli.structure.algebras import Cyclic, LinePlace, Seq, Structure, Tree, bit_length

__all__ = [
    "LINE",
    "Cyclic",
    "Grid",
    "LinePlace",
    "Product",
    "Seq",
    "Structure",
    "StructureField",
    "Tree",
    "bit_length",
    "columns",
    "example",
    "factors_of",
    "left_out",
    "matches",
    "parse_structure",
]

LINE = -1  # what `columns` gives for the place along the linearisation

_ALLOWED = "seq, line, tree(k) with k from 2 to 1000, grid(n) and cyclic(n) with n from 2, and products: seq*tree(2)"
_WORDS: dict[str, Structure] = {"seq": Seq(), "line": LinePlace()}


@dataclass(frozen=True)
class Product(Structure):
    """A product of structures. Paths compose component by component, and the distance is the sum of the distances."""

    factors: tuple[Structure, ...]

    @property
    def expression(self) -> str:
        """The expressions of the factors, joined by `*`."""
        return "*".join(f.expression for f in self.factors)

    @property
    def algebra(self) -> Structure:
        """The product of the factors' algebras."""
        return product(tuple(factor.algebra for factor in self.factors))

    @cached_property
    def simple(self) -> tuple[Structure, ...]:
        """The simple factors of all factors, in order."""
        return tuple(s for factor in self.factors for s in factor.simple)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The number that is added to each coordinate of a stored position."""
        return tuple(f for factor in self.simple for f in factor.first)

    def distance(self, x: Any, y: Any) -> Any:
        """The sum of the distances in all coordinates. int64 [..., C], broadcast -> int64 [...]"""
        return sum(s.distance(x[..., i], y[..., i]) for i, s in enumerate(self.simple))

    def extent(self, x: Any) -> int:
        """The greatest extent of a coordinate. int64 [..., C]"""
        return max(s.extent(x[..., i]) for i, s in enumerate(self.simple))

    def compose(self, x: Any, y: Any) -> Any:
        """The composition in each coordinate. int64 [..., C], broadcast -> int64 [..., C]"""
        composed = x * 0 + y * 0
        for i, s in enumerate(self.simple):
            composed[..., i] = s.compose(x[..., i], y[..., i])
        return composed


@dataclass(frozen=True)
class Grid(Product):
    """The regular grid of `len(factors)` dimensions. Its distance is the Manhattan distance."""

    @property
    def expression(self) -> str:
        """`grid(n)`, with n the number of dimensions."""
        return f"grid({len(self.factors)})"

    def straight(self, x: Any, y: Any) -> Any:
        """The Euclidean distance between two positions in steps.

        It is the square root of the sum of the axes' squared distances. int64 [..., C], broadcast -> floating point
        [...]
        """
        apart = (s.distance(x[..., i], y[..., i]) for i, s in enumerate(self.simple))
        return sum((1.0 * steps) ** 2 for steps in apart) ** 0.5  # the square of an int64 could overflow


_NUMBERED: dict[str, tuple[int, Callable[[int], Structure]]] = {  # the largest number, and the structure
    "tree": (1000, Tree),
    "grid": (16, lambda n: Grid((Seq(),) * n)),
    "cyclic": (2**31, Cyclic),
}


def product(factors: tuple[Structure, ...]) -> Structure:
    """The product of structures, in the one form that each algebra has.

    A single factor is itself, nested products are flattened, and a product of `seq` alone is a `Grid`.
    """
    flat = tuple(f for x in factors for f in (x.factors if type(x) is Product else (x,)))
    if len(flat) > 1 and all(type(f) is Seq for f in flat):
        return Grid(flat)
    return flat[0] if len(flat) == 1 else Product(flat)


def parse_structure(expression: str | Structure) -> Structure:
    """Parse the expression of a structure. A structure is returned as it is.

    Raises `UsageError` if the expression is not valid.

    >>> parse_structure("tree(2)").distance(4, 7)  # left-left to right-right: two up, two down
    4
    >>> parse_structure(" seq * tree(3) * grid(2) ").expression
    'seq*tree(3)*grid(2)'
    """
    if isinstance(expression, Structure):
        return expression
    factors = [_factor(text) for text in expression.split("*", 16)]
    flat = tuple(factor for factor in factors if factor is not None)
    if len(flat) < len(factors) or sum(factor.width for factor in flat) > 16:
        got, fix = brief(expression), "correct it"
        raise UsageError("bad structure", got=got, allowed=_ALLOWED, fix=fix)
    return product(flat)


def _factor(text: str) -> Structure | None:
    """The structure of an expression without `*`, None if it is not valid."""
    match = re.fullmatch(r"\s*([a-z]+)\s*(?:\(\s*([1-9][0-9]{0,9})\s*\)\s*)?", text)
    name, number = match.groups() if match else ("", None)
    if number is None:
        return _WORDS.get(name)
    largest, make = _NUMBERED.get(name, (0, Cyclic))
    return make(int(number)) if 2 <= int(number) <= largest else None


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
        match = next((coordinate for coordinate in unread if coordinate[0] == factor and stored != Seq()), None)
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


# a field of pydantic models: a `Structure` in memory, its expression in JSON
StructureField = Annotated[Structure, PlainValidator(_validated), PlainSerializer(str, return_type=str)]
