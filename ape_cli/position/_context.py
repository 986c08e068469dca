"""Contexts: what the hooks of a scheme know about positions. `ape_cli.position` explains the shape letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ape_cli.data.position_plan import PositionPlan, run_of


@dataclass(frozen=True)
class Context:
    """Positions, prepared for the hooks of a scheme. `Scheme.context` creates one.

    >>> import torch
    >>> from ape_cli import position
    >>> scheme = position.make("rope", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 0]]), torch.tensor([[True, True, False]]))
    >>> context.positions.shape, context.mask.sum().item(), context.causal
    (torch.Size([1, 3]), 2, False)
    """

    # int64 [B or 1, N], or [B or 1, N, C] for a product of C factors; floats only if the scheme sets `real_positions`
    positions: Tensor
    mask: Tensor | None = None  # bool [B, N], True for tokens and False for padding; None if all are tokens
    state: Any = None  # the prepared operators of a `FastScheme`
    causal: bool = False  # whether each position sees only itself and earlier ones, as in a decoder
    plan: PositionPlan | None = None  # computed on the host, together with the batch
    _pairs: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def cached(self, other: Context, compute: Callable[[Context, Context], Any]) -> Any:
        """`compute(self, other)`, computed on the first call and cached.

        Layers use it to share results that depend on a pair of contexts.

        >>> import torch
        >>> context = Context(torch.tensor([[1, 2, 4]]))
        >>> def offsets(queries, keys):
        ...     return keys.positions[:, None, :] - queries.positions[:, :, None]
        >>> context.cached(context, offsets)[0]
        tensor([[ 0,  1,  3],
                [-1,  0,  2],
                [-3, -2,  0]])
        >>> context.cached(context, offsets) is context.cached(context, offsets)
        True
        """
        key = (compute.__qualname__, id(other))
        if key not in self._pairs:
            # Keep `other` alive, so that its id is not used again. A reference to `self` would never be released.
            held = None if other is self else other
            self._pairs[key] = held, compute(self, other)
        return self._pairs[key][1]

    def part(self, begin: int, end: int) -> Context:
        """The context of positions `begin` to `end - 1`, without a state."""
        mask = None if self.mask is None else self.mask[:, begin:end]
        return Context(self.positions[:, begin:end], mask, causal=self.causal)

    @cached_property
    def start(self) -> int | None:
        """The first position if all rows share one run of consecutive positions, else None.

        On a GPU it is None without a plan, because reading the values would stall the GPU.
        """
        if self.plan is not None:
            return self.plan.first
        return run_of(self.positions) if self.positions.device.type == "cpu" else None


@dataclass(frozen=True)
class Link:
    """The positions on both sides of an attention. In causal self-attention, the M queries are the last M of N keys.

    >>> import torch
    >>> from ape_cli import position
    >>> scheme = position.make("none", d_model=4, heads=1)
    >>> context = scheme.context(torch.tensor([[1, 2, 3]]), torch.tensor([[True, True, False]]), causal=True)
    >>> position.Link(context, context).mask[0, 0].int()  # the third token is padding
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 0]], dtype=torch.int32)
    """

    q_context: Context  # M queries
    k_context: Context  # N keys

    @cached_property
    def mask(self) -> Tensor | None:
        """Which keys each query may attend to: bool, broadcasts to [B, 1, M, N]; None if it may attend to all.

        It excludes padding and, in causal attention, later keys. Attention applies it after the hooks of the scheme.
        """
        keys = None if self.k_context.mask is None else self.k_context.mask[:, None, None, :]
        if not self.k_context.causal:
            return keys
        count = self.q_context.positions.shape[1], self.k_context.positions.shape[1]
        seen = torch.ones(count, dtype=torch.bool, device=self.k_context.positions.device).tril(count[1] - count[0])
        return seen[None, None] if keys is None else seen & keys
