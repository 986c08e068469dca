"""Linear: a product of positive features for a softmax, so that the keys are summed up before a query comes.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, section 3.2: phi(x) = elu(x) + 1; with rotations as in
Su et al. 2021, arXiv:2104.09864, section 3.3: [m] phi(q) meets [n] phi(k) in the numerator, while the
denominator stays unrotated and thereby positive. The scale 1/sqrt(K) has no place in it.
No attention weight ever exists, so attention dropout does not apply (that of the layers does).

Linear in tokens. All keys: by associativity, phi(q) (phi(k)' v). Causal: by chunks, what the chunks
before left behind plus the masked product within the chunk; no [M, N] of the whole, no [N, K, K].
In float32 at least, within autocast too: the sums grow with the sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.attention import Kind, Link
from ape_cli.position import Scheme
from ape_cli.position._rotation import wide

CHUNK = 64  # tokens


def phi(x: Tensor) -> Tensor:
    """elu(x) + 1, so written that far below zero it is small and not 0."""
    return x.clamp(max=0.0).exp() + functional.relu(x)


class Linear(Kind):
    refuses_bias = "there are no logits of a query and a key to add it to"
    refuses_decay = "there are no logits of a query and a key to scale"
    takes_dropout = False
    rotation = False  # phi acts channel by channel
    about = "phi(q) phi(k), phi = elu + 1, over their sum"
    cost = "(M + N) K K products: linear in tokens"
    source = "Katharopoulos et al. 2020, arXiv:2006.16236, section 3.2"

    def mix(self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            plain_q, plain_k, values = phi(wide(q)), phi(wide(k)), wide(v)
            if link.keys is not None:
                plain_k = plain_k * link.keys[:, None, :, None]
            turned_q = scheme.rotate(plain_q, link.q_context, "query")
            turned_k = scheme.rotate(plain_k, link.k_context, "key")
            if link.causal:
                total, seen = causal_sums(turned_q, turned_k, values), plain_k.cumsum(-2)  # [B, H, M, K]
            else:
                total, seen = turned_q @ (turned_k.mT @ values), plain_k.sum(-2, keepdim=True)
            return (total / (plain_q * seen).sum(-1, keepdim=True)).to(v.dtype)


def causal_sums(q: Tensor, k: Tensor, v: Tensor, chunk: int = CHUNK) -> Tensor:
    """For each m the sum over n <= m of (q_m k_n) v_n. [B, H, N, K] each -> the same"""
    before = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])  # [B, H, K, K], of the chunks so far
    parts = []
    for some_q, some_k, some_v in zip(*(x.split(chunk, dim=-2) for x in (q, k, v)), strict=True):
        parts.append(some_q @ before + (some_q @ some_k.mT).tril() @ some_v)
        before = before + some_k.mT @ some_v
    return torch.cat(parts, dim=-2)
