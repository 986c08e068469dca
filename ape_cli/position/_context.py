"""Contexts: what the hooks of a scheme know about positions. `ape_cli.position` describes the shape letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from ape_cli.data.position_plan import PositionPlan, run_of


@dataclass(frozen=True)
class Context:
    """What a scheme knows about some positions."""

    # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors; may be floats if the scheme has `real_positions`
    positions: Tensor
    mask: Tensor | None = None  # bool [B, N], True for tokens
    state: Any = None  # of a `FastScheme`: its operators
    causal: bool = False  # whether they are a decoder's, which sees only earlier tokens
    plan: PositionPlan | None = None  # computed on the host, with the batch
    _pairs: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def cached(self, other: Context, compute: Callable[[Context, Context], Any]) -> Any:
        """The result of `compute(self, other)`, which is computed at the first call and then kept.

        The layers of a forward pass use it to share what depends on a pair of contexts.
        """
        key = (compute.__qualname__, id(other))
        if key not in self._pairs:
            # Keep `other` alive, so that its id is not used again. A reference to `self` would never be released.
            held = None if other is self else other
            self._pairs[key] = held, compute(self, other)
        return self._pairs[key][1]

    def part(self, begin: int, end: int) -> Context:
        """The context of the positions from `begin` to `end`, without a state."""
        mask = None if self.mask is None else self.mask[:, begin:end]
        return Context(self.positions[:, begin:end], mask, causal=self.causal)

    @cached_property
    def start(self) -> int | None:
        """The first position, if all rows share a run of consecutive positions, else None.

        Without a plan it is also None on a GPU, because the values would have to be waited for.
        """
        if self.plan is not None:
            return self.plan.first
        return run_of(self.positions) if self.positions.device.type == "cpu" else None


@dataclass(frozen=True)
class Link:
    """The queries and the keys of an attention. In causal self-attention, the M queries are the last M keys."""

    q_context: Context
    k_context: Context
