r"""Softmax-free: the weight is a Gaussian of the distance. Weights are not normalised to sum to 1.

Source: Lu et al. 2021 (SOFT), arXiv:2110.11945, section 3.1: $\exp(-|q - k|^2 / (2\sqrt{K}))$.

Deviations: the full kernel is used instead of its low-rank form by Nyström's method, whose landmarks pool over tokens
and would look ahead in a decoder. Queries and keys stay untied. (The source ties them so that the kernel is symmetric,
which the low-rank form needs and attention between two sequences cannot have.) Dropout acts on the weights. At
initialisation a weight is about $\exp(-\sqrt{K})$, which is small in wide heads.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention import AttentionContext, AttentionType
from ape_cli.attention._kernels import in_units
from ape_cli.attention._layers import drop
from ape_cli.attention.squared_euclidean import scores
from ape_cli.position import Scheme


class SoftmaxFree(AttentionType):
    """Attention with a Gaussian of the distance as the weight."""

    refuses_bias = "it has no logits of single queries and keys to add it to"
    refuses_decay = "its exponents are never positive; scaled towards zero, they would favour distant keys"
    about = "exp(-|q - k|^2 / (2 sqrt(K))), not normalised"
    cost = "M N K differences, as for the kernels"
    source = "Lu et al. 2021, arXiv:2110.11945, section 3.1"

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The sum of values, each times its weight. [B, H, M or N, K] -> [B, H, M, K]"""
        weights = scores(*in_units(scheme, q, k, context, q.shape[-1] ** 0.25)).exp()  # [B, H, M, N]
        if context.mask is not None:
            weights = weights.masked_fill(~context.mask, 0.0)
        return drop(weights, dropout).to(v.dtype) @ v
