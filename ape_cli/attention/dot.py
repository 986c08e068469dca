"""Dot: the scaled dot product and a softmax over keys.

Source: Algebraic Positional Encodings, sections 2 and 4.2; Vaswani et al. 2017, section 3.2.1. Logits are (q
k) / sqrt(K), times decay, plus bias, plus mask. `_backend` decides which of torch's operations compute them. If a
score has more terms than the product, long sequences are computed in blocks (`_blocks`).

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ape_cli.attention import (
    AttentionContext,
    AttentionKind,
    _backend,
    _blocks,
    additive,
    adjusted,
    average,
    rotated,
    scaled,
)
from ape_cli.position import Scheme


class Dot(AttentionKind):
    """Scaled dot-product attention."""

    refuses_content = ""
    takes_frame = True
    about = "softmax of (q k) / sqrt(K)"
    cost = "M N K products"
    source = "Vaswani et al. 2017, section 3.2.1"

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values, weighted by the softmax of the logits. [B, H, M or N, K] -> [B, H, M, K]

        Raises `UsageError` if the requested backend cannot compute it.
        """
        rotated_q, rotated_k = rotated(scheme, q, k, context)

        def answer(q: Tensor, rotated_q: Tensor, rotated_k: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
            """The result for some of the queries, which `context` describes.

            `q` is unrotated, as `Scheme.bias` needs it.
            """
            bias = scheme.bias(q, context.q_context, context.k_context)
            backend = _backend.choose(rotated_q, bias, context.decay, dropout)
            if backend == "plain":
                return average(adjusted(scaled(rotated_q, rotated_k), bias, context), v, context, dropout)
            mask = additive(bias, context, rotated_q.dtype)
            return functional.scaled_dot_product_attention(rotated_q, rotated_k, v, attn_mask=mask, dropout_p=dropout)

        if _blocks.are_worth_it(scheme, q, k, context):
            return _blocks.each(answer, q, rotated_q, rotated_k, v, context, rng=dropout > 0)
        return answer(q, rotated_q, rotated_k, v, context)
