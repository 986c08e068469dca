"""Rotation of channel pairs, and the frequencies that most schemes turn them by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


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


def circle(angle: Tensor) -> Tensor:
    """e^(i angle), without gradient. float64 -> complex128"""
    angle = angle.detach()
    return torch.complex(angle.cos(), angle.sin())


class Turns:
    """e^(i angle) of some positions: computed once, in float64 so that thousands of steps lose nothing."""

    def __init__(self, angle: Tensor, known: Tensor | None = None) -> None:
        """angle: float64 [..., K/2]; `known`: its `circle`, where that was cheaper to find"""
        exact = token_major(circle(angle) if known is None else known)
        self._exact = angle, exact, exact.conj()
        self._single: tuple[Tensor, Tensor, Tensor] | None = None

    def of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """For vectors of this dtype: float64, or anything smaller, which is turned in float32. -> the angles, which
        take the gradient, the turns and their inverses, without one; [..., K/2] each"""
        if dtype == torch.float64:
            return self._exact
        if self._single is None:
            turn = self._exact[1].to(torch.complex64)
            self._single = self._exact[0].float(), turn, turn.conj().resolve_conj()
        return self._single


def token_major(x: Tensor) -> Tensor:
    """[B, H, N, .] laid out as [B, N, H, .], as projections are: what is read side by side stands side by side."""
    return x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 4 else x


class _Turning(torch.autograd.Function):
    """Pairs of channels times e^(i angle); backward, the pairs turn back, and each angle gets Im(g y*)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, angle: Tensor, turn: Tensor, back: Tensor) -> Tensor:
        out = torch.view_as_real(_pairs(x) * turn).flatten(-2)
        ctx.back, ctx.shape = back, angle.shape
        ctx.save_for_backward(*([out] if ctx.needs_input_grad[1] else []))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        pairs = _pairs(grad)
        back = torch.view_as_real(pairs * ctx.back).flatten(-2)
        if not ctx.needs_input_grad[1]:
            return back, None, None, None
        (out,) = ctx.saved_tensors
        return back, (pairs * _pairs(out).conj()).sum_to_size(ctx.shape).imag, None, None


def _pairs(x: Tensor) -> Tensor:
    """Channels (2i, 2i+1) as one complex number. [..., K] -> [..., K/2]"""
    pairs = x.unflatten(-1, (-1, 2))
    if pairs.stride(-1) != 1 or any(step % 2 for step in pairs.stride()[:-1]) or pairs.storage_offset() % 2:
        pairs = pairs.contiguous()
    return torch.view_as_complex(pairs)


def rotate_pairs(x: Tensor, turns: Turns) -> Tensor:
    """Channels (2i, 2i+1) of each head as one complex number, times its turn. [..., N, K] -> the same"""
    out: Tensor = _Turning.apply(wide(x), *turns.of(x.dtype))
    return out.to(x.dtype)


def rotate_halves(x: Tensor, turns: Turns) -> Tensor:
    """Channels (i, i + K/2) of each head as one complex number, times its turn. [..., N, K] -> the same"""
    side_by_side = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return rotate_pairs(side_by_side, turns).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
