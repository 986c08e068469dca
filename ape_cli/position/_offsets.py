"""Terms of the offset between a query and a key: one for each offset that there is, then each pair its own.

Shapes: B batch, H heads, M queries, N keys, L offsets, in ascending order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.position import Context


@dataclass(frozen=True)
class Offsets:
    """The offsets j - i of keys at j from queries at i."""

    distinct: Tensor  # int64 [L]
    which: Tensor | None  # int64 [B or 1, M, N]; None: consecutive positions, whose pairs lie along diagonals
    keys: int

    @classmethod
    def of(cls, q_context: Context, k_context: Context) -> Offsets:
        q, k = q_context.positions, k_context.positions
        count = k.shape[1]
        if q_context.start is not None and k_context.start is not None:
            ahead = k_context.start - q_context.start
            return cls(torch.arange(ahead - q.shape[1] + 1, ahead + count), None, count)
        distinct, which = torch.unique(k[:, None, :] - q[:, :, None], return_inverse=True)
        return cls(distinct, which, count)

    def each(self, table: Tensor, queries: int) -> Tensor:
        """Each pair its term, where all queries have the same. [H, L] -> [B or 1, H, M, N]"""
        rows = 1 if self.which is None else self.which.shape[0]
        return self.spread(table[None, :, None].expand(rows, -1, queries, -1))

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
