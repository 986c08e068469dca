"""Dot: the scaled dot product and a softmax over keys.

Source: Algebraic Positional Encodings, sections 2 and 4.2; Vaswani et al. 2017, section 3.2.1. Logits are (q
k) / sqrt(K), times decay, plus bias, plus mask. `_backend` decides which of torch's operations compute them. If a
score has more terms than the product, long sequences are computed in blocks (`_blocks`).

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ape_cli.attention import Kind, Link, _backend, _blocks, additive, adjusted, average, scaled, turned
from ape_cli.position import Scheme


class Dot(Kind):
    """Scaled dot-product attention."""

    refuses_content = ""
    takes_frame = True
    about = "softmax of (q k) / sqrt(K)"
    cost = "M N K products"
    source = "Vaswani et al. 2017, section 3.2.1"

    def mix(self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
        """The mean of values, weighted by the softmax of the logits. [B, H, M or N, K] -> [B, H, M, K]

        Raises `UsageError` if the requested backend cannot compute it.
        """
        turned_q, turned_k = turned(scheme, q, k, link)

        def answer(q: Tensor, turned_q: Tensor, turned_k: Tensor, v: Tensor, link: Link) -> Tensor:
            """The result for some of the queries, which `link` describes.

            `q` is unrotated, as `Scheme.bias` needs it.
            """
            bias = scheme.bias(q, link.q_context, link.k_context)
            backend = _backend.choose(turned_q, bias, link.decay, dropout)
            if backend == "plain":
                return average(adjusted(scaled(turned_q, turned_k), bias, link), v, link, dropout)
            attend = functional.scaled_dot_product_attention
            return attend(turned_q, turned_k, v, attn_mask=additive(bias, link, turned_q.dtype), dropout_p=dropout)

        if _blocks.are_worth_it(scheme, q, k, link):
            return _blocks.each(answer, q, turned_q, turned_k, v, link, rng=dropout > 0)
        return answer(q, turned_q, turned_k, v, link)
