r"""Boxcar: keys within reach score 1, all others 0.

Source: Notes on Attention and Positional Encodings, section 2.7: $a(q, k) = 1$ if $|q - k| \le 1$, else 0. A step has
no gradient, so the projections to queries and keys learn nothing, while values and everything else learn. This is
a control: it shows how much a model can make of chance similarities.

Deviation: the unit is $2\sqrt{K}$. With a unit of 1, distances at initialisation, about $\sqrt{2K}$, would lie outside
the support and stay there. Attention would be a plain mean, and nothing could be learned from it. In units of
$2\sqrt{K}$, distances start at about 0.7, on the near side of the step.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """1 if |q - k| <= 1, else 0, without a gradient. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    apart = distances(q.detach(), k.detach())
    return (apart <= 1.0).to(apart.dtype)


class Boxcar(Kernel):
    """Attention with a step function of the distance."""

    lacks = ("gradient",)
    about = "softmax of 1 where |q - k| <= 2 sqrt(K), else 0; a step without gradient"
    cost = "M N K differences, without a gradient"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    kernel = staticmethod(scores)

    def unit(self, channels: int) -> float:
        """2 sqrt(K)."""
        return 2.0 * channels**0.5
