r"""Linear: products of positive features replace the softmax, so keys are summed independently of queries.

Source: Katharopoulos et al. 2020, arXiv:2006.16236, section 3.2: $\phi(x) = \text{elu}(x) + 1$. Rotations are applied
as in Su et al. 2021, arXiv:2104.09864, section 3.3: $[m] \phi(q)$ meets $[n] \phi(k)$ in the numerator, while the
denominator stays unrotated and thus positive. There is no scaling by $1/\sqrt{K}$. There are no attention weights, so
attention dropout does not apply (the dropout of the layers does).

The cost is linear in the number of tokens. If all keys are visible, $\phi(q) (\phi(k)^\top v)$ is computed by
associativity. Causal attention is computed in chunks: the sums of earlier chunks, plus the masked product within the
chunk. Neither [M, N] of the whole sequence nor [N, K, K] is ever stored. Numbers are at least float32, even within
autocast, because the sums grow with the sequence.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.position import Scheme
from ape_cli.position._rotation import wide

CHUNK = 64  # number of tokens


def phi(x: Tensor) -> Tensor:
    """elu(x) + 1, in a form that is small but not 0 far below zero. [...] -> the same"""
    return x.clamp(max=0.0).exp() + functional.relu(x)


class Linear(AttentionType):
    """Attention with a product of positive features."""

    refuses_bias = "it has no logits of single queries and keys to add it to"
    refuses_decay = "it has no logits of single queries and keys to scale"
    lacks = ("dropout", "rotation")  # there are no weights; phi acts channel by channel
    about = "phi(q) phi(k) with phi = elu + 1, divided by their sum"
    cost = "(M + N) K K products: linear in tokens"
    source = "Katharopoulos et al. 2020, arXiv:2006.16236, section 3.2"

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values, weighted by the products of features.

        [B, H, M or N, K] -> [B, H, M, K]. `dropout` has no effect.
        """
        with torch.autocast(q.device.type, enabled=False):
            plain_q, plain_k, values = phi(wide(q)), phi(wide(k)), wide(v)
            if context.keys is not None:
                plain_k = plain_k * context.keys[:, None, :, None]
            rotated_q = scheme.rotate(plain_q, context.q_context, "query")
            rotated_k = scheme.rotate(plain_k, context.k_context, "key")
            if context.causal:
                total = causal_sums(rotated_q, rotated_k, values)
                seen = plain_k.cumsum(-2)[:, :, context.first :]  # [B, H, M, K]
            else:
                total, seen = rotated_q @ (rotated_k.mT @ values), plain_k.sum(-2, keepdim=True)
            norm = (plain_q * seen).sum(-1, keepdim=True)
            if context.empty is not None:
                norm = norm.masked_fill(context.empty, 1.0)  # total is 0
            return (total / norm).to(v.dtype)


def causal_sums(q: Tensor, k: Tensor, v: Tensor, chunk: int = CHUNK) -> Tensor:
    """For each query, the sum of (q k_n) v_n over its own place and those before. The queries are the last M of N.

    q: [B, H, M, K], k and v: [B, H, N, K] -> [B, H, M, K]
    """
    first = k.shape[2] - q.shape[2]
    q = functional.pad(q, (0, 0, first, 0)) if first else q
    before = v.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])  # [B, H, K, K], the sums of the chunks so far
    parts = []
    for some_q, some_k, some_v in zip(*(x.split(chunk, dim=-2) for x in (q, k, v)), strict=True):
        parts.append(some_q @ before + (some_q @ some_k.mT).tril() @ some_v)
        before = before + some_k.mT @ some_v
    return torch.cat(parts, dim=-2)[:, :, first:]
