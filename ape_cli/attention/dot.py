"""Dot: the scaled dot product and a softmax over keys.

Source: Algebraic Positional Encodings, sections 2 and 4.2; Vaswani et al. 2017, section 3.2.1.
Logits are (q k) / sqrt(K), times decay, plus bias, plus mask. A locality bias scales the logits, so it
takes the plain path; without one, torch's fused attention serves. On a CPU it has no gradient for a bias and
would take a plain path of its own, with a softmax that also looks for rows without any key: ours is shorter.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ape_cli.attention import Kind, Link, average, products, turned
from ape_cli.position import Scheme


class Dot(Kind):
    refuses_content = ""
    takes_frame = True
    about = "softmax of (q k) / sqrt(K)"
    cost = "M N K products"
    source = "Vaswani et al. 2017, section 3.2.1"

    def mix(self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
        if link.decay is not None:
            return average(products(scheme, q, k, link), v, link, dropout)
        mask, bias = link.mask, scheme.bias(q, link.q_context, link.k_context)
        if bias is not None:
            if bias.requires_grad and bias.device.type == "cpu":
                turned_q, turned_k = turned(scheme, q, k, link)
                scores = (turned_q * q.shape[-1] ** -0.5) @ turned_k.mT + bias.to(q.dtype)
                return average(scores, v, link, dropout)
            mask = bias if link.hidden is None else bias.masked_fill(link.hidden, float("-inf"))
        q, k = turned(scheme, q, k, link)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
