r"""Euclidean: the nearer a key, the higher its score.

Source: Notes on Attention and Positional Encodings, section 2.7: $a(q, k) = -|q - k|$. Scores start at about
$-\sqrt{2K}$ and differ by about 1 between keys, so nothing is rescaled.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """-|q - k|. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return -distances(q, k)


class Euclidean(Kernel):
    """Attention with the negative distance as the score."""

    refuses_decay = "its scores are never positive; scaled towards zero, they would favour distant keys"
    about = "softmax of -|q - k|"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    kernel = staticmethod(scores)

    def unit(self, channels: int) -> float:
        """1."""
        return 1.0
