"""Boxcar: keys within reach score 1, all others 0.

Source: Notes on Attention and Positional Encodings, section 2.7: a(q, k) = 1 if |q - k| <= 1, else 0.
A step has no gradient: the projections to queries and keys, and what serves them alone, stay as they were
initialised, while values and all else learn. A control: what a model makes of chance similarities.
Deviation: the unit is 2 sqrt(K). With a unit of 1 every distance, about sqrt(2K) at initialisation, would
lie outside the support and stay there: attention would be a plain mean, and nothing could be learned of
it. In units of 2 sqrt(K) distances begin at about 0.7, on the near side of the step.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.attention._kernels import Kernel, distances


def scores(q: Tensor, k: Tensor) -> Tensor:
    """1 if |q - k| <= 1, else 0; without gradient. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""
    apart = distances(q.detach(), k.detach())
    return (apart <= 1.0).to(apart.dtype)


class Boxcar(Kernel):
    differentiable = False
    about = "softmax of 1 where |q - k| <= 2 sqrt(K), else 0; a step, without gradient"
    cost = "M N K differences, without a gradient"
    source = "Notes on Attention and Positional Encodings, section 2.7"

    def unit(self, channels: int) -> float:
        return 2.0 * channels**0.5

    def kernel(self, q: Tensor, k: Tensor) -> Tensor:
        return scores(q, k)
