"""The algebras of paths: composition, distance, and heap indices of trees with any number of branches.

Positions are int64, [...] for a simple structure and [..., C] for a product of C simple factors. They may be NumPy
arrays or torch tensors. Distances are in steps.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

_GREATEST = 2**63 - 1


class Structure(ABC):
    """An algebra of paths."""

    @property
    @abstractmethod
    def expression(self) -> str:
        """The structure's expression, which `parse_structure` reads."""

    def __str__(self) -> str:
        """The structure's expression."""
        return self.expression

    @cached_property
    def simple(self) -> tuple[Structure, ...]:
        """The simple factors, one for each coordinate of a position."""
        return (self,)

    @cached_property
    def width(self) -> int:
        """The number of coordinates of a position."""
        return len(self.simple)

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The number that is added to each coordinate of a stored position, so that 0 is left for the empty path.

        It is 1 for sequences and rings, whose places a dataset stores from 0 on.
        """
        return (1,)

    @property
    def algebra(self) -> Structure:
        """The structure without the knowledge of where its coordinates come from: `line` becomes `seq`."""
        return self

    @abstractmethod
    def distance(self, x: Any, y: Any) -> Any:
        """The distance between positions x and y in steps: the length of the path x^-1 y.

        The arguments are int64 and are broadcast. The result is int64; for a product it lacks the axis of
        coordinates.
        """

    def extent(self, x: Any) -> int:
        """The size of what the positions fill: the last place of a sequence or ring, or the greatest depth of a tree.

        For a product it is the greatest extent of a coordinate. int64 [...] or [..., C]
        """
        return int(x.max())

    def compose(self, x: Any, y: Any) -> Any:
        """The path x followed by the path y: the absolute position of what is at y when it is seen from x.

        The arguments are int64 and are broadcast. So is the result. On sequences and rings it is the sum, which is not
        reduced modulo the order of a ring.
        """
        return x + y


@dataclass(frozen=True)
class Seq(Structure):
    """The sequence. Paths are integers, and the distance is the absolute offset."""

    @property
    def expression(self) -> str:
        """`seq`."""
        return "seq"

    def distance(self, x: Any, y: Any) -> Any:
        """The absolute offset |x - y|. int64, broadcast."""
        return abs(x - y)


@dataclass(frozen=True)
class LinePlace(Seq):
    """The sequence of places along the linearisation, for data that has a factor `seq` of its own.

    It is only a way of reading data. As an algebra it is the sequence.
    """

    @property
    def expression(self) -> str:
        """`line`."""
        return "line"

    @property
    def algebra(self) -> Structure:
        """The sequence."""
        return Seq()


@dataclass(frozen=True)
class Cyclic(Structure):
    """A ring of `order` places. Paths are integers modulo `order`, and the distance is the shorter way round."""

    order: int

    @property
    def expression(self) -> str:
        """`cyclic(n)`, with n the order."""
        return f"cyclic({self.order})"

    def distance(self, x: Any, y: Any) -> Any:
        """The shorter way round the ring, at most order // 2. int64, broadcast."""
        one_way = (x - y) % self.order
        other_way = (y - x) % self.order
        return one_way + (other_way - one_way) * (other_way < one_way)


@dataclass(frozen=True)
class Tree(Structure):
    """Trees whose nodes have `branching` children. Paths are heap indices.

    The distance between two nodes is the number of steps up to their common ancestor and down again.

    A heap index minus 1 is the sequence of the path's branches 1..k, read as a bijective numeral in base k. So the
    path x followed by the path y has the number k^(length of y) times that of x, plus that of y.
    """

    branching: int = 2

    @property
    def expression(self) -> str:
        """`tree(k)`, with k the number of branches."""
        return f"tree({self.branching})"

    @cached_property
    def first(self) -> tuple[int, ...]:
        """`(0,)`: heap indices begin at 1, so nothing is added."""
        return (0,)

    @property
    def max_depth(self) -> int:
        """The largest depth at which every heap index of the level fits into a signed 64-bit integer."""
        return next(depth for depth in range(63) if self.level_start(depth + 2) - 1 > _GREATEST)

    def level_start(self, depth: Any) -> Any:
        """The first heap index of a level: 1, 2, 4, 8, ... for binary trees. `depth`: an int, or int64 of any shape."""
        if self.branching == 2:
            return 1 << depth
        return (self.branching**depth - 1) // (self.branching - 1) + 1

    def level(self, heap: Any) -> Any:
        """The depth of each heap index: 0 for the root.

        The position 0 of SOS counts as the root. int64 -> the same shape
        """
        if self.branching == 2:
            return bit_length(heap | (heap == 0)) - 1
        depth = heap * 0
        for d in range(1, self.max_depth + 1):
            depth = depth + (heap >= self.level_start(d))
        return depth

    def extent(self, x: Any) -> int:
        """The greatest depth. int64 [...]"""
        return int(self.level(x).max())

    def ancestor(self, heap: Any, up: Any) -> Any:
        """The heap index of the ancestor `up` steps above each node. int64, broadcast."""
        if self.branching == 2:
            return heap >> up
        return (heap - self.level_start(up)) // self.branching**up + 1

    def branch(self, heap: Any) -> Any:
        """The number of each node among its parent's children, from 0.

        It is undefined for a root. int64 -> the same shape
        """
        return (heap - 2) % self.branching

    def distance(self, x: Any, y: Any) -> Any:
        """The number of steps from node x to node y, up to their common ancestor and down again. int64, broadcast.

        Binary trees use bit arithmetic alone. Other trees use a loop over levels.
        """
        x, y = x | (x == 0), y | (y == 0)
        depth_x, depth_y = self.level(x), self.level(y)
        # bit arithmetic: no value has to be read back from a GPU
        if self.branching == 2:
            shallow = depth_x + (depth_y - depth_x) * (depth_y < depth_x)  # the smaller one, broadcast
            apart = bit_length((x >> (depth_x - shallow)) ^ (y >> (depth_y - shallow)))
            return depth_x + depth_y - 2 * (shallow - apart)
        shared = depth_x * 0 + depth_y * 0
        for d in range(1, _greatest(depth_x, depth_y, self.max_depth) + 1):
            there_x, there_y = depth_x >= d, depth_y >= d
            up_x, up_y = (depth_x - d) * there_x, (depth_y - d) * there_y
            shared = shared + ((self.ancestor(x, up_x) == self.ancestor(y, up_y)) & there_x & there_y)
        return depth_x + depth_y - 2 * shared

    def compose(self, x: Any, y: Any) -> Any:
        """The heap index of the node at path y below node x. int64, broadcast."""
        x, y = x | (x == 0), y | (y == 0)
        return (x - 1) * self.branching ** self.level(y) + y


def bit_length(x: Any) -> Any:
    """The number of binary digits of each non-negative int64 (0 for 0).

    An int, a NumPy array or a torch tensor -> the same

    For arrays it is the exponent of the number as a float64. A conversion to float64 could round a number up to the
    next power of two. To prevent this, each binary digit that follows a 1 is cleared first.
    """
    if isinstance(x, int):
        return x.bit_length()
    digits = x & ~(x >> 1)
    # read from the bits of the float64, because torch does not compile `frexp` for CPUs
    is_tensor = hasattr(x, "double")
    exponent = digits.double().view(x.dtype) if is_tensor else np.asarray(digits, dtype=np.float64).view(np.int64)
    exponent >>= 52
    exponent -= 1022
    return exponent.clip(0)


def _greatest(x: Any, y: Any, maximum: int) -> int:
    """The greatest element of x or the greatest element of y, whichever is smaller.

    For tensors on a GPU and in a compiled function it is `maximum`: reading a value would block, or end the graph.
    """
    if any(hasattr(v, "is_cuda") and (v.is_cuda or sys.modules["torch"].compiler.is_compiling()) for v in (x, y)):
        return maximum
    return min(0 if 0 in getattr(v, "shape", ()) else int(v.max() if hasattr(v, "max") else v) for v in (x, y))
