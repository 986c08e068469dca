"""Scaled dot-product attention with a scheme's hooks.

Logits are (q k) / sqrt(K), times decay, plus bias, plus mask (paper, sections 2 and 4.2).
Shapes: B batch, H heads, M queries, N keys, K channels of a head, D channels of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli.position import Context, Scheme


def logits(scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context) -> Tensor:
    """The scores before mask and softmax. q: [B, H, M, K], k: [B, H, N, K] -> [B, H, M, N]"""
    return _score(scheme, q, k, q_context, k_context, scheme.decay(q_context, k_context))


def _score(
    scheme: Scheme, q: Tensor, k: Tensor, q_context: Context, k_context: Context, decay: Tensor | None
) -> Tensor:
    turned_q = scheme.rotate(q, q_context, "query") * q.shape[-1] ** -0.5
    scores = turned_q @ scheme.rotate(k, k_context, "key").transpose(-1, -2)
    if decay is not None:
        scores = scores * decay.to(scores.dtype)
    bias = scheme.bias(q, q_context, k_context)
    return scores if bias is None else scores + bias.to(scores.dtype)


@dataclass(frozen=True)
class Link:
    """Who attends to whom: what the layers of one stack share in a forward pass."""

    q_context: Context
    k_context: Context
    mask: Tensor | None  # bool, broadcasts to [B, 1, M, N]; True = may attend. None: all may
    decay: Tensor | None

    @classmethod
    def of(cls, scheme: Scheme, q_context: Context, k_context: Context, mask: Tensor | None) -> Link:
        return cls(q_context, k_context, mask, scheme.decay(q_context, k_context))


class Attention(nn.Module):
    """Multi-head attention. The locality bias scales the logits, so it takes the plain path."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor, scheme: Scheme, link: Link) -> Tensor:
        """x: [B, M, D] asks, memory: [B, N, D] answers. -> [B, M, D]"""
        q, k, v = (  # [B, H, ., K]
            layer(of).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, of in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        drop = self.dropout if self.training else 0.0
        if link.decay is None:
            mask, bias = link.mask, scheme.bias(q, link.q_context, link.k_context)
            if bias is not None:
                mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
            mixed = functional.scaled_dot_product_attention(
                scheme.rotate(q, link.q_context, "query"),
                scheme.rotate(k, link.k_context, "key"),
                v,
                attn_mask=mask,
                dropout_p=drop,
            )
        else:
            scores = _score(scheme, q, k, link.q_context, link.k_context, link.decay)
            if link.mask is not None:
                scores = scores.masked_fill(~link.mask, float("-inf"))
            # dropout acts on the weights, after the softmax: it can never revive a masked place
            weights = functional.dropout(torch.softmax(scores, dim=-1), drop, self.training)
            mixed = weights @ v
        return self.out(mixed.transpose(1, 2).flatten(-2))
