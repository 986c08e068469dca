"""Rotation of channel pairs, and the frequencies that most schemes turn them by."""

from __future__ import annotations

import torch
from torch import Tensor


def frequencies(channels: int, base: float, device: torch.device | None = None) -> Tensor:
    """base^(-2i/channels) for each pair i: radians a step, float64. -> [channels/2]"""
    two_i = torch.arange(0, channels, 2, dtype=torch.float64, device=device)
    return base ** (-two_i / channels)


def sinusoids(positions: Tensor, channels: int) -> Tensor:
    """Sines and cosines side by side, sin(p / 10000^(2i/D)) at 2i: [...] -> [..., D], float64"""
    angle = positions[..., None] * frequencies(channels, 10_000.0, positions.device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def wide(x: Tensor) -> Tensor:
    """In float32 or float64, where close numbers keep their digits."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def turns(angle: Tensor, dtype: torch.dtype) -> Tensor:
    """e^(i angle), computed in float64 so that thousands of steps lose nothing. [..., K/2] -> complex

    `dtype`: of the vectors to be turned (float64, or anything smaller, which is turned in float32).
    """
    exact = angle.to(torch.float64)
    unit = torch.complex(exact.cos(), exact.sin())
    return unit if dtype == torch.float64 else unit.to(torch.complex64)


def rotate_pairs(x: Tensor, turn: Tensor) -> Tensor:
    """Channels (2i, 2i+1) of each head as one complex number, times `turn`. [..., N, K] -> the same"""
    pairs = torch.view_as_complex(wide(x).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)


def rotate_halves(x: Tensor, turn: Tensor) -> Tensor:
    """Channels (i, i + K/2) of each head as one complex number, times `turn`. [..., N, K] -> the same"""
    side_by_side = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return rotate_pairs(side_by_side, turn).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
