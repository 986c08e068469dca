"""Rotation of channel pairs: shared by rope and the orthogonal schemes of one generator."""

from __future__ import annotations

import torch
from torch import Tensor


def turns(angle: Tensor, dtype: torch.dtype) -> Tensor:
    """e^(i angle), computed in float64 so that thousands of steps lose nothing. [..., K/2] -> complex

    `dtype`: of the vectors to be turned (float64, or anything smaller, which is turned in float32).
    """
    wide = angle.to(torch.float64)
    unit = torch.complex(wide.cos(), wide.sin())
    return unit if dtype == torch.float64 else unit.to(torch.complex64)


def rotate_pairs(x: Tensor, turn: Tensor) -> Tensor:
    """Channels (2i, 2i+1) of each head as one complex number, times `turn`. [B, H, N, K] -> the same"""
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)
