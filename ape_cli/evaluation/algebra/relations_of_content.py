"""Relations of encodings whose rotations or magnitudes depend on the content.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.evaluation.algebra.relation import CLOSED, ConfiguredScheme, Relation, closed, layer_of, put
from ape_cli.position import AttentionPair, Scheme, Shape
from ape_cli.position._rotation import frequencies
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


def _same_angles(special: Any, general: Any) -> None:
    """No projection, and e^a times the frequencies as angles."""
    angles = layer_of(general).double()
    put(angles.project[1].weight, torch.zeros(()))
    put(angles.bias, (special.angles / frequencies(special.turned, general.base)).log())


def _same_gates(special: Any, general: Any) -> None:
    """The weights of the gates, and beta in the limit 0."""
    closed(special, general)
    layer_of(general).gates.load_state_dict(layer_of(special).double().state_dict())


def _open_gates(special: Any, general: Any) -> None:
    """The same matrices, and gates in the limit 1."""
    layer = layer_of(general).double()
    layer.load_state_dict(layer_of(special).double().state_dict(), strict=False)
    put(layer.gates.project.weight, torch.zeros(()))
    put(layer.gates.project.bias, torch.tensor(-CLOSED))


_IN_ORDER = torch.arange(1, 11)[None]  # what a scheme that counts tokens reads
_GATED = ConfiguredScheme("path", {"forget": True})
RELATIONS = [
    Relation(
        ConfiguredScheme("rope", {"learned": True, "interleaved": False}),
        ConfiguredScheme("selective-rope", {"bias": True}),
        "the same angles for all tokens, no projection, at consecutive positions",
        _same_angles,
        "behind",
        positions=lambda _: (_IN_ORDER, _IN_ORDER),
    ),
    Relation(ConfiguredScheme("forget"), _GATED, "the same gates, limit beta -> 0", _same_gates, "behind"),
    Relation(ConfiguredScheme("path"), _GATED, "the same matrices, gates in the limit 1", _open_gates, "behind"),
    Relation(
        ConfiguredScheme("pope", {"init": "uniform"}),
        ConfiguredScheme("RoPE of magnitudes", formula=_RopeOfMagnitudes),
        "channels (softplus q, 0) and (softplus k, 0), the latter turned by delta",
        lambda pope, rope: put(rope.delta, pope.free),
    ),
]
