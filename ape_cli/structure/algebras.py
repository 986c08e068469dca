"""The algebras of paths: composition, distance, heap indices of trees of any branching."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        for d in range(1, _greatest(depth_x, depth_y, self.max_depth) + 1):
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

    def straight(self, x: Any, y: Any) -> Any:
        """The straight line between two positions, in steps, a float, broadcast: the root of the axes' squares."""
        apart = (s.distance(x[..., i], y[..., i]) for i, s in enumerate(self.simple))
        return sum((1.0 * steps) ** 2 for steps in apart) ** 0.5  # squares of int64 could leave it


def bit_length(x: Any) -> Any:
    """Number of binary digits of each non-negative int64 (0 for 0): an int, or an array of numpy or torch.

    It is the exponent of a float64. Without the digit after the first one none is rounded up to the next power of two.
    """
    if isinstance(x, int):
        return x.bit_length()
    digits = x & ~(x >> 1)
    if isinstance(x, np.ndarray | np.generic):
        exponent = np.asarray(digits, dtype=np.float64).view(np.int64)
        exponent >>= 52
        exponent -= 1022
        return np.maximum(exponent, 0)
    return digits.double().frexp().exponent.to(x.dtype)


def _greatest(x: Any, y: Any, most: int) -> int:
    """The smaller one of the two greatest elements; `most` of tensors on a GPU, which would have to be waited for."""
    if any(getattr(v, "is_cuda", False) for v in (x, y)):
        return most
    return min(int(v.max()) if getattr(v, "shape", ()) and 0 not in v.shape else int(v or 0) for v in (x, y))
