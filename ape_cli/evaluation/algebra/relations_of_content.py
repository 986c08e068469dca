"""Relations of encodings whose rotations or magnitudes depend on the content.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.evaluation.algebra.relation import ConfiguredScheme, Relation, put
from ape_cli.position import AttentionPair, Scheme, Shape
from ape_cli.position.rope import Rope


class _RopeOfMagnitudes(Scheme):
    """RoPE on pairs of channels (softplus x, 0), whose content has no phase. Keys are turned by delta first."""

    def __init__(self, shape: Shape) -> None:
        """Prepare twice the channels."""
        super().__init__(shape)
        self.delta = nn.Parameter(torch.zeros(shape.heads, shape.head_dim))
        self.rope = Rope(replace(shape, d_model=2 * shape.d_model))

    def logits(self, q: Tensor, k: Tensor, content: Tensor | None, pair: AttentionPair) -> Tensor:
        """The scores of RoPE, divided by sqrt(K). [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
        nothing, delta = torch.zeros_like(self.delta), self.delta
        pairs_q, pairs_k = (
            (functional.softplus(x)[..., None] * torch.stack([turn.cos(), turn.sin()], dim=-1)[:, None]).flatten(-2)
            for x, turn in ((q, nothing), (k, delta))
        )
        queries = self.rope.rotate(pairs_q, pair.q_context, "query")
        return queries @ self.rope.rotate(pairs_k, pair.k_context, "key").mT / q.shape[-1] ** 0.5


RELATIONS = [
    Relation(
        ConfiguredScheme("pope", {"init": "uniform"}),
        ConfiguredScheme("RoPE of magnitudes", formula=_RopeOfMagnitudes),
        "channels (softplus q, 0) and (softplus k, 0), the latter turned by delta",
        lambda pope, rope: put(rope.delta, pope.free),
    ),
]
