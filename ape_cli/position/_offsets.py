"""Terms of the offset between a query and a key: one for each offset that there is, then each pair its own.

Shapes: B batch, H heads, M queries, N keys, L offsets, in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.position import Context


@dataclass(frozen=True)
class Offsets:
    """The offsets j - i of keys at j from queries at i."""

    distinct: Tensor  # int64 [L], those that terms are to be made of
    which: Tensor | None  # int64 [B or 1, M, N]; None: consecutive positions, whose pairs lie along diagonals
    keys: int

    @classmethod
    def of(cls, q_context: Context, k_context: Context, clip: int | None = None) -> Offsets:
        """`clip`: offsets further than that are taken for it."""
        line = _along_a_line(q_context, k_context)
        if line is not None:
            return cls(line if clip is None else line.clamp(-clip, clip), None, k_context.positions.shape[1])
        offset = _between(q_context, k_context)
        if clip is None:
            distinct, which = torch.unique(offset, return_inverse=True)
            return cls(distinct, which, offset.shape[2])
        distinct = torch.arange(-clip, clip + 1, device=offset.device)  # all there may be: nothing to wait for on a GPU
        return cls(distinct, offset.clamp(-clip, clip) + clip, offset.shape[2])

    def spread(self, terms: Tensor) -> Tensor:
        """Each pair its term, out of those of all offsets. [B, H, M, L] -> [B, H, M, N]"""
        if self.which is not None:
            return terms.gather(-1, self.which[:, None].expand(*terms.shape[:3], -1))
        m, count = terms.shape[-2:]
        if m == 1:  # its keys are all the offsets that there are
            return terms
        # the terms of query i begin at its place M - 1 - i: on the whole, M - 1 from the start and then every L - 1
        diagonal = terms.flatten(2)[:, :, m - 1 : m - 1 + m * (count - 1)]
        return diagonal.unflatten(2, (m, count - 1))[..., : self.keys]


def each(q_context: Context, k_context: Context, term: Callable[[Tensor], Tensor]) -> Tensor:
    """Each pair its term, which knows its offset alone. `term`: int64 [...] -> [H, ...]. -> [B or 1, H, M, N]"""
    line = _along_a_line(q_context, k_context)
    if line is None:
        return term(_between(q_context, k_context)).transpose(0, 1)
    terms = term(line)[None, :, None].expand(-1, -1, q_context.positions.shape[1], -1)
    return Offsets(line, None, k_context.positions.shape[1]).spread(terms)


def _along_a_line(q_context: Context, k_context: Context) -> Tensor | None:
    """The offsets of consecutive positions, in ascending order. -> [M + N - 1], None where they are not known to be"""
    if q_context.start is None or k_context.start is None:
        return None
    ahead = k_context.start - q_context.start
    begin, end = ahead - q_context.positions.shape[1] + 1, ahead + k_context.positions.shape[1]
    return torch.arange(begin, end, device=q_context.positions.device)


def _between(q_context: Context, k_context: Context) -> Tensor:
    return k_context.positions[:, None, :] - q_context.positions[:, :, None]  # [B or 1, M, N]
