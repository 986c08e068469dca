r"""Squared Euclidean: the dot product, except that long keys are not favoured.

Source: Notes on Attention and Positional Encodings, section 2.7:
$a(q, k) = -|q - k|^2 / 2 = q k - |k|^2 / 2 - |q|^2 / 2$. The last term is the same for all keys, so the softmax cancels
it. The unit $K^{1/4}$ is ours: in this unit the product is $(q k) / \sqrt{K}$, as in `dot`.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """-|q - k|^2 / 2. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return distances(q, k).square() * -0.5


class SquaredEuclidean(Kernel):
    """Attention with the negative squared distance as the score."""

    refuses_decay = "its scores are never positive; scaled towards zero, they would favour distant keys"
    about = "softmax of -|q - k|^2 / (2 sqrt(K))"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    kernel = staticmethod(scores)

    def unit(self, channels: int) -> float:
        """K^(1/4)."""
        return channels**0.25
