"""Structures: what a position is, and how far apart two of them are.

A structure is an algebra of paths (paper, sections 3.1.1, 3.2.1): `seq` is the free group with one
generator (the integers), `tree(2)` the one with two (left and right). A path in a tree from the root
down is an integer, its heap index: the root is 1, the children of i are 2i and 2i+1, so the bits
after the leading one spell the branches from the root down (0 left, 1 right).

Positions are what every scheme reads: int64, with 0 for the empty path of SOS. For sequences tokens
stand at 1, 2, ...; for trees at their heap index, and 0 is read as the root's empty path. A heap
index holds 62 steps at most; `trees.py` and the tasks refuse anything deeper.

The functions on heap indices use nothing but operators, so NumPy arrays and torch tensors of int64
serve alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from ape_cli.errors import UsageError

MAX_DEPTH = 62  # steps of a path in a signed 64-bit heap index


def bit_length(x: Any) -> Any:
    """Number of binary digits of each non-negative int64 (0 for 0), by halving the search six times."""
    length = x * 0
    for shift in (32, 16, 8, 4, 2, 1):
        big = (x >> shift) > 0
        length = length + shift * big
        x = x >> (shift * big)
    return length + x


def level(heap: Any) -> Any:
    """Depth of each heap index: 0 for the root. The 0 of SOS counts as the root."""
    return bit_length(heap | (heap == 0)) - 1


class Structure(Protocol):
    """What a scheme needs to know of a structure."""

    @property
    def expression(self) -> str: ...

    def distance(self, x: Any, y: Any) -> Any:
        """Steps between two positions, int64, broadcast. The length of the path x^-1 y."""
        ...


@dataclass(frozen=True)
class Seq:
    """The sequence: paths are integers, the distance is the absolute offset."""

    expression: str = "seq"

    def distance(self, x: Any, y: Any) -> Any:
        return abs(x - y)


@dataclass(frozen=True)
class Tree:
    """Binary trees: paths are heap indices, the distance goes up to the common ancestor and down."""

    branching: int = 2

    @property
    def expression(self) -> str:
        return f"tree({self.branching})"

    def distance(self, x: Any, y: Any) -> Any:
        x, y = x | (x == 0), y | (y == 0)
        depth_x, depth_y = bit_length(x), bit_length(y)
        shallow = depth_x + (depth_y - depth_x) * (depth_y < depth_x)  # the smaller of the two, broadcast
        apart = bit_length((x >> (depth_x - shallow)) ^ (y >> (depth_y - shallow)))
        return depth_x + depth_y - 2 * (shallow - apart)


def parse(expression: str) -> Structure:
    """`seq` or `tree(2)`.

    >>> parse("tree(2)").distance(4, 7)  # left-left to right-right: two up, two down
    4
    """
    if re.fullmatch(r"\s*seq\s*", expression):
        return Seq()
    if re.fullmatch(r"\s*tree\s*\(\s*2\s*\)\s*", expression):
        return Tree()
    raise UsageError("unknown structure", got=repr(expression), allowed="seq, tree(2)", fix="choose one of them")
