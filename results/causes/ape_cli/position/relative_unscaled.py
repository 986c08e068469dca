"""Relative with the logits of the authors' first release: the term is not divided by sqrt(K), and starts large.

There, the vectors of offsets start from N(0, 1), and q_i w[clip(j - i)] is added to the scaled product of query and key
as it is. `relative` divides both terms by sqrt(K), as its source does, and starts from N(0, 1/K).
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.position import Context, Shape
from ape_cli.position.relative import Relative


class RelativeUnscaled(Relative):
    """A learned vector for each offset, multiplied with the query without 1/sqrt(K)."""

    source = "commit 6644480 of the preprint's authors' code"

    def __init__(self, shape: Shape) -> None:
        """Draw the vectors from N(0, 1)."""
        super().__init__(shape)
        self.offsets.data *= shape.head_dim**0.5

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """q_i w[clip(j - i)]. q: [B, H, M, K] -> [B, H, M, N]"""
        return super().bias(q * q.shape[-1] ** 0.5, q_context, k_context)
