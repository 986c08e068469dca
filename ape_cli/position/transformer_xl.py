r"""Transformer-XL: content meets position through projected sinusoids of the offset.

Source: Dai et al. 2019, arXiv:1901.02860, section 3.3. For query $i$ and key $j$, the score before the scaling by
$1/\sqrt{K}$ is

$$
\underbrace{q_i k_j}_{a} + \underbrace{q_i r_{i-j}}_{b} + \underbrace{u k_j}_{c} + \underbrace{v r_{i-j}}_{d}, \quad
r_p = W_R s_p
$$

where $s_p$ is the sinusoidal vector of the offset $p$, and $u$ and $v$ are learned, one pair for each head. Terms a and
c form one product, which a locality bias scales: `rotate` adds $u$ to the query. Terms b and d are the `bias`, which
applies $1/\sqrt{K}$ itself. The layers share $W_R$, $u$ and $v$; in the source they share $u$ and $v$, and each layer
has its own $W_R$. The scheme is unbounded, because offsets of either sign have sinusoids.

Deviations: the offset may be negative, because an encoder attends in both directions. The terms also act in the
attention between decoder and encoder.

Shapes: B batch, H heads, M queries, N keys, L distinct offsets, K channels of a head, D channels of the model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._fast_scheme import by_head
from ape_cli.position._offsets import Offsets
from ape_cli.position._rotation import sinusoids, wide


class TransformerXl(Scheme):
    """Terms of content and position, with projected sinusoids of the offset."""

    relative = True
    dot_only = True
    waits_for_positions = True
    synonyms = ("xl", "txl")
    source = "Dai et al. 2019, arXiv:1901.02860, section 3.3"
    content_dependent = True
    memory = "H L^2"
    extrapolation = "good"

    def __init__(self, shape: Shape) -> None:
        """Draw W_R, u and v."""
        super().__init__(shape)
        d, h, k = shape.d_model, shape.heads, shape.head_dim
        w, u, v = (torch.randn(*size, generator=shape.generator) for size in ((h, k, d), (h, k), (h, k)))
        self.project = nn.Parameter(w * d**-0.5)  # W_R: [H, K, D]
        self.u, self.v = nn.Parameter(0.02 * u), nn.Parameter(0.02 * v)  # [H, K]

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Add u to queries, and leave keys unchanged. [B, H, N, K] -> the same"""
        return x + self.u[:, None].to(x.dtype) if side == "query" else x

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """(q + v) r_(i-j) / sqrt(K), added after the scaling of the logits. q: [B, H, M, K] -> [B, H, M, N]"""
        biased = (q + self.v[:, None].to(q.dtype)) * q.shape[-1] ** -0.5
        if torch.compiler.is_compiling():
            return self._of_pairs(biased, q_context, k_context).to(q.dtype)
        offsets, r = q_context.cached(k_context, self.projected)
        return offsets.spread(by_head(biased, r.to(q.dtype).mT))

    def _of_pairs(self, biased: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """The products with r_(i-j), without a search for the distinct offsets. [B, H, M, K] -> [B, H, M, N]

        With a pair (a, b) of channels of W_R' (q + v), and i and j in radians of this pair, a sin(i - j) + b cos(i - j)
        = (b sin i - a cos i) sin j + (a sin i + b cos i) cos j.
        """
        a, b = by_head(wide(biased), wide(self.project)).unflatten(-1, (-1, 2)).unbind(-1)  # [B, H, M, D/2]
        at, to = (sinusoids(x.positions, self.shape.d_model).to(a.dtype)[:, None] for x in (q_context, k_context))
        sin, cos = at.unflatten(-1, (-1, 2)).unbind(-1)  # [B or 1, 1, M, D/2]
        return torch.stack([b * sin - a * cos, a * sin + b * cos], dim=-1).flatten(-2) @ to.mT

    def projected(self, q_context: Context, k_context: Context) -> tuple[Offsets, Tensor]:
        """The distinct offsets, and r of each: float32 or wider [H, L, K]."""
        offsets, project = Offsets.of(q_context, k_context), wide(self.project)
        behind = sinusoids(-offsets.distinct, self.shape.d_model).to(project.dtype)  # i - j
        return offsets, behind @ project.mT
