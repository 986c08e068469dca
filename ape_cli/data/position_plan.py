"""Position plans: values that depend on positions and are computed on the host, together with a batch.

The host has to wait for a GPU if it asks for the values of positions there. Everything about positions that needs more
than tensor arithmetic is therefore computed from positions on the CPU, ahead of the step that uses it, and sent along
with the batch. The shapes of a plan's tensors follow from the shape of the positions and from `sizes`, so batches of
few shapes have plans of few shapes.

Shapes: B rows, N tokens, C coordinates of a position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class PositionPlan:
    """The plan of one tensor of positions."""

    first: int | None = None  # the first position, if all rows share one run of consecutive positions
    tensors: tuple[Tensor, ...] = ()  # defined by the scheme
    sizes: tuple[int, ...] = ()  # defined by the scheme: numbers that decide which operations are run
    parts: tuple[PositionPlan, ...] = ()  # the plans of the factors of a product

    def all_tensors(self) -> Iterator[Tensor]:
        """Yield all tensors of the plan and its parts, of shapes [...] that the scheme defines, in a fixed order."""
        yield from self.tensors
        for part in self.parts:
            yield from part.all_tensors()

    def changed(self, change: Callable[[Tensor], Tensor]) -> PositionPlan:
        """The same plan with `change` applied to each tensor [...], for example to move it to another device."""
        parts = tuple(part.changed(change) for part in self.parts)
        return replace(self, tensors=tuple(change(t) for t in self.tensors), parts=parts)

    @property
    def key(self) -> tuple[Any, ...]:
        """A key for recorded operations.

        Two plans of one scheme that have equal keys lead to the same operations on tensors of the same shapes.
        """
        return self.first, tuple(t.shape for t in self.tensors), self.sizes, tuple(part.key for part in self.parts)


# Plans positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU, beside the plan of other positions of the same
# forward pass, or None.
Planner = Callable[[Tensor, PositionPlan | None], PositionPlan]


def run_of(positions: Tensor) -> int | None:
    """The first of consecutive positions that all rows share; None for any other positions.

    int64 [B or 1, N] or [B or 1, N, C] on the CPU. Floating-point positions are never a run.
    """
    if positions.shape[0] != 1 or positions.dim() != 2 or not positions.shape[1] or positions.is_floating_point():
        return None
    first = int(positions[0, 0])
    return first if torch.equal(positions[0], torch.arange(first, first + positions.shape[1])) else None
