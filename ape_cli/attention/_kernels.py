"""Shared code of the kernels: numerically sound distances, and attention by a kernel of distances.

Source: Notes on Attention and Positional Encodings, section 2.7, definition 2.6: the softmax over keys of scores
a(q, k), and the values' mean by it.
Ours: queries and keys are first divided by a unit, which each kernel states. It is chosen so that the kernel has
useful values at initialisation, when channels have variance about 1 and |q - k| is about sqrt(2K). Queries and keys
are rotated before this. Decay and bias apply to the scores, which have no scaling by 1/sqrt(K) other than the unit.
Scores are at least float32, within autocast too.

Shapes: B batch, H heads, M queries, N keys, K channels of a head.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ape_cli.attention import AttentionContext, AttentionType, adjusted, average
from ape_cli.position import Scheme
from ape_cli.position._rotation import wide


def distances(q: Tensor, k: Tensor) -> Tensor:
    """The distances |q - k|, computed from differences. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]

    The expansion into squares would lose digits by cancellation. The gradient at distance 0 is 0.
    """
    with torch.autocast(q.device.type, enabled=False):
        return torch.cdist(wide(q), wide(k), compute_mode="donot_use_mm_for_euclid_dist")


def in_units(scheme: Scheme, q: Tensor, k: Tensor, context: AttentionContext, unit: float) -> tuple[Tensor, Tensor]:
    """Queries and keys, rotated and divided by a unit of length, at least float32.

    [B, H, M, K], [B, H, N, K] -> the same
    """
    return (
        wide(scheme.rotate(q, context.q_context, "query")) / unit,
        wide(scheme.rotate(k, context.k_context, "key")) / unit,
    )


class Kernel(AttentionType):
    """Base class of the kernels, which define their scores and the unit in which they measure distances."""

    cost = "M N K differences, slower than a product; on a GPU its gradient briefly needs memory for M N K numbers"

    @abstractmethod
    def unit(self, channels: int) -> float:
        """The length by which queries and keys are divided, for heads of `channels` channels."""

    @abstractmethod
    def kernel(self, q: Tensor, k: Tensor) -> Tensor:
        """The scores of queries and keys that are given in units. [B, H, M, K], [B, H, N, K] -> [B, H, M, N]"""

    def attend(
        self, scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, context: AttentionContext, dropout: float
    ) -> Tensor:
        """The mean of values, weighted by the softmax of the adjusted scores. [B, H, M or N, K] -> [B, H, M, K]"""
        scores = self.kernel(*in_units(scheme, q, k, context, self.unit(q.shape[-1])))
        bias = scheme.bias(q, context.q_context, context.k_context)
        return average(adjusted(scores, bias, context), v, context, dropout)
