"""What the kernels share: distances that are numerically sound, and attention by a kernel of distances.

Source: Notes on Attention and Positional Encodings, section 2.7, definition 2.6: the softmax over keys
of scores a(q, k), and the values' mean by it. Ours: queries and keys are divided by a unit first, which
each kernel states, so that it is alive at initialisation, where channels have variance about 1 and
|q - k| is about sqrt(2K). Queries and keys are rotated before; decay and bias apply to the scores.
Scores are at least float32, within autocast too.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ape_cli.attention import Kind, Link, adjusted, average
from ape_cli.position import Scheme
from ape_cli.position._rotation import wide


def distances(q: Tensor, k: Tensor) -> Tensor:
    """|q - k| by differences: the expansion into squares would cancel. The gradient at distance 0 is 0.

    [B, H, M, K], [B, H, N, K] -> [B, H, M, N]
    """
    with torch.autocast(q.device.type, enabled=False):
        return torch.cdist(wide(q), wide(k), compute_mode="donot_use_mm_for_euclid_dist")


def turned(scheme: Scheme, q: Tensor, k: Tensor, link: Link, unit: float) -> tuple[Tensor, Tensor]:
    """Queries and keys, rotated, in this unit of length, at least float32."""
    return (
        wide(scheme.rotate(q, link.q_context, "query")) / unit,
        wide(scheme.rotate(k, link.k_context, "key")) / unit,
    )


class Kernel(Kind):
    """Base of the kernels: their scores, and the unit in which they measure."""

    cost = "M N K differences, slower than a product; on a GPU its gradient holds M N K numbers for a moment"

    @abstractmethod
    def unit(self, channels: int) -> float:
        """By which queries and keys are divided."""

    @abstractmethod
    def kernel(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, M, K], [B, H, N, K], in units -> [B, H, M, N]"""

    def mix(self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, link: Link, dropout: float) -> Tensor:
        scores = self.kernel(*turned(scheme, q, k, link, self.unit(q.shape[-1])))
        bias = scheme.bias(q, link.q_context, link.k_context)
        return average(adjusted(scores, bias, link), v, link, dropout)
