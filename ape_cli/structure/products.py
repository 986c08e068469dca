"""Products of structures, component by component, and the regular grid.

Positions are int64 [..., C], with a coordinate for each of the C simple factors. They may be NumPy arrays or torch
tensors. Distances are in steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ape_cli.structure.algebras import Seq, Structure


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


def product(factors: tuple[Structure, ...]) -> Structure:
    """The product of structures, in the one form that each algebra has.

    A single factor is itself, nested products are flattened, and a product of `seq` alone is a `Grid`.
    """
    flat = tuple(f for x in factors for f in (x.factors if type(x) is Product else (x,)))
    if len(flat) > 1 and all(type(f) is Seq for f in flat):
        return Grid(flat)
    return flat[0] if len(flat) == 1 else Product(flat)
