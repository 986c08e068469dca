"""Squared Euclidean: the dot product, but that long keys are not favoured.

Source: Notes on Attention and Positional Encodings, section 2.7: a(q, k) = -|q - k|^2 / 2, which is
q k - |k|^2 / 2 - |q|^2 / 2; the last term is one for all keys and vanishes in the softmax.
Unit: K^(1/4), ours: then the product in it is (q k) / sqrt(K), as it is in `dot`.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """-|q - k|^2 / 2. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return distances(q, k).square() * -0.5


class SquaredEuclidean(Kernel):
    refuses_decay = "its scores are never positive, and scaled towards zero they would favour distant keys"
    about = "softmax of -|q - k|^2 / (2 sqrt(K))"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    def unit(self, channels: int) -> float:
        return channels**0.25

    def kernel(self, q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k)
