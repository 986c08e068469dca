"""What is worked out of positions on the host, together with a batch and ahead of the step that uses it.

A GPU that is asked for the values of positions has to be waited for. So whatever depends on them beyond tensor
arithmetic is put into a plan, made from positions on the CPU and sent along with the batch. The shapes of its tensors
follow from the shape of the positions and from `sizes`, so that batches of few shapes have plans of few shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class PositionPlan:
    """Of one tensor of positions."""

    first: int | None = None  # the first position, where all rows share one run of consecutive ones
    tensors: tuple[Tensor, ...] = ()  # the scheme's own
    sizes: tuple[int, ...] = ()  # the scheme's own: numbers that decide which operations are run
    parts: tuple[PositionPlan, ...] = ()  # of the factors of a product

    def each(self) -> Iterator[Tensor]:
        """All tensors, in a fixed order."""
        yield from self.tensors
        for part in self.parts:
            yield from part.each()

    def changed(self, change: Callable[[Tensor], Tensor]) -> PositionPlan:
        """The same plan with other tensors, for example on another device."""
        parts = tuple(part.changed(change) for part in self.parts)
        return replace(self, tensors=tuple(change(t) for t in self.tensors), parts=parts)

    @property
    def key(self) -> tuple[Any, ...]:
        """Two plans of one scheme with equal keys lead to the same operations on tensors of the same shapes."""
        return self.first, tuple(t.shape for t in self.tensors), self.sizes, tuple(part.key for part in self.parts)


class Planner(Protocol):
    """What makes plans of positions: a scheme."""

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU; `beside` is that of other positions
        of the same forward pass."""


def run_of(positions: Tensor) -> int | None:
    """The first of consecutive positions that all rows share; None for any others. int64 [B or 1, N] on the CPU"""
    if positions.shape[0] != 1 or positions.dim() != 2 or not positions.shape[1]:
        return None
    first = int(positions[0, 0])
    return first if torch.equal(positions[0], torch.arange(first, first + positions.shape[1])) else None
