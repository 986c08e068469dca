"""Terms that depend on the offset between a query and a key.

A term is computed once for each distinct offset, and then copied to all pairs of a query and a key with this offset.

Shapes: B batch, H heads, M queries, N keys, L distinct offsets in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.position import Context


@dataclass(frozen=True)
class Offsets:
    """The offsets j - i of keys at position j from queries at position i."""

    distinct: Tensor  # int64 [L], the offsets that terms have to be computed for
    # int64 [B or 1, M, N], the index into `distinct` of each pair. None if positions are consecutive, so that pairs
    # of one offset lie along a diagonal.
    which: Tensor | None
    keys: int

    @classmethod
    def of(cls, q_context: Context, k_context: Context, clip: int | None = None) -> Offsets:
        """The offsets between two contexts.

        Offsets beyond `clip` in either direction are replaced by `clip` or -`clip`.
        """
        line = _along_a_line(q_context, k_context)
        if line is not None:
            return cls(line if clip is None else line.clamp(-clip, clip), None, k_context.positions.shape[1])
        offset = _between(q_context, k_context)
        if clip is None:
            distinct, which = torch.unique(offset, return_inverse=True)
            return cls(distinct, which, offset.shape[2])
        # All offsets that are possible are listed, so that no value has to be read back from a GPU.
        distinct = torch.arange(-clip, clip + 1, device=offset.device)
        return cls(distinct, offset.clamp(-clip, clip) + clip, offset.shape[2])

    def spread(self, terms: Tensor) -> Tensor:
        """Copy the terms of all offsets to the pairs of a query and a key. [B, H, M, L] -> [B, H, M, N]"""
        if self.which is not None:
            return terms.gather(-1, self.which[:, None].expand(*terms.shape[:3], -1))
        m, count = terms.shape[-2:]
        if m == 1:  # a single query has one key for each offset
            return terms
        # The terms of query i begin at index M - 1 - i of its row. In the flat array these starts are M - 1 and then
        # every L - 1.
        diagonal = terms.flatten(2)[:, :, m - 1 : m - 1 + m * (count - 1)]
        return diagonal.unflatten(2, (m, count - 1))[..., : self.keys]


def pair_terms(q_context: Context, k_context: Context, term: Callable[[Tensor], Tensor]) -> Tensor:
    """Terms that depend on the offset alone, for all pairs of a query and a key. -> [B or 1, H, M, N]

    `term` computes them: int64 [...] -> [H, ...].
    """
    line = _along_a_line(q_context, k_context)
    if line is None:
        return term(_between(q_context, k_context)).transpose(0, 1)
    terms = term(line)[None, :, None].expand(-1, -1, q_context.positions.shape[1], -1)
    return Offsets(line, None, k_context.positions.shape[1]).spread(terms)


def _along_a_line(q_context: Context, k_context: Context) -> Tensor | None:
    """The offsets between consecutive positions, in ascending order. -> int64 [M + N - 1]

    None if the positions are not known to be consecutive, as in a compiled function.
    """
    if torch.compiler.is_compiling() or q_context.start is None or k_context.start is None:
        return None
    ahead = k_context.start - q_context.start
    begin, end = ahead - q_context.positions.shape[1] + 1, ahead + k_context.positions.shape[1]
    return torch.arange(begin, end, device=q_context.positions.device)


def _between(q_context: Context, k_context: Context) -> Tensor:
    """The offset of each pair of a query and a key. -> int64 [B or 1, M, N]"""
    return k_context.positions[:, None, :] - q_context.positions[:, :, None]
