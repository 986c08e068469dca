r"""Epanechnikov: scores fall linearly with distance, and are 0 for keys beyond a limit.

Source: Notes on Attention and Positional Encodings, section 2.7: $a(q, k) = \max(0, 1 - |q - k|)$.

Deviation: the unit is $2\sqrt{K}$. With a unit of 1, distances at initialisation, about $\sqrt{2K}$, would lie outside
the support. All scores would be 0, queries and keys would get no gradient, and nothing would be learned. In units of
$2\sqrt{K}$, distances start at about 0.7.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """max(0, 1 - |q - k|). [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    return functional.relu(1.0 - distances(q, k))


class Epanechnikov(Kernel):
    """Attention with scores that fall linearly with the distance."""

    about = "softmax of max(0, 1 - |q - k| / (2 sqrt(K)))"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    kernel = staticmethod(scores)

    def unit(self, channels: int) -> float:
        """2 sqrt(K)."""
        return 2.0 * channels**0.5
