"""Rotation of channel pairs, and the frequencies that most schemes use for it.

Shapes: B batch, H heads, N tokens, K channels of a head, D channels of the model. Angles are in radians.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.core.errors import UsageError
from ape_cli.position._context import kept_apart


def frequencies(channels: int, base: float, device: torch.device | None = None) -> Tensor:
    """base^(-2i/channels) for each pair i of channels, in radians for each step. -> float64 [channels/2]"""
    two_i = torch.arange(0, channels, 2, dtype=torch.float64, device=device)
    return base ** (-two_i / channels)


def check_base(base: float, usual: int) -> None:
    """Check the base of frequencies. `usual`: that of the source. Raises `UsageError` if it is not above 1."""
    if not base > 1.0:
        raise UsageError("bad base", got=base, allowed="above 1", fix=f"the source uses {usual}")


def sinusoids(positions: Tensor, channels: int) -> Tensor:
    """Sines and cosines of positions, side by side: sin(p / 10000^(2i/D)) is at channel 2i.

    int64 [...] -> float64 [..., D]
    """
    angle = positions[..., None] * frequencies(channels, 10_000.0, positions.device)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def wide(x: Tensor) -> Tensor:
    """The same values in float32 or float64, so that close numbers keep their digits. [...] -> the same

    float32 and float64 are returned as they are; smaller types become float32.
    """
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def circle(angle: Tensor) -> Tensor:
    """e^(i angle) as cosine and sine, without a gradient. float64 [...] -> float64 [..., 2]"""
    angle = angle.detach()
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


class Rotations:
    """The rotations e^(i angle) of some positions.

    They are computed once, in float64, so that thousands of steps lose no precision.

    Arguments: `angle`, float64 [..., K/2]; `turns`, the result of `circle(angle)` if it could be found more cheaply, or
    positive multiples of it, float64 [..., K/2, 2], by which pairs are also scaled.
    """

    def __init__(self, angle: Tensor, turns: Tensor | None = None) -> None:
        """Compute the rotations in float64."""
        self.angle, self.turns = angle, token_major(circle(angle) if turns is None else turns)
        # made here and not on first use, which may be where no gradients are recorded
        self._angles = {torch.float64: angle, torch.float32: angle.float()}
        self._complex: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

    def of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """The rotations for vectors of this dtype, float32 or float64.

        Returns the angles, which take the gradient, and the rotations and their complex conjugates, which have none;
        [..., K/2] each.
        """
        if dtype not in self._complex:
            with kept_apart():
                turn = torch.view_as_complex(self.turns.to(dtype))
                self._complex[dtype] = turn, turn.conj().resolve_conj()
        return self._angles[dtype], *self._complex[dtype]


def token_major(x: Tensor) -> Tensor:
    """[B, H, N, K/2, 2] stored in the memory order [B, N, H, K/2, 2], which is the order of projections.

    What is read together is then stored together. Tensors of other dimensions are returned as they are.
    """
    return x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 5 else x


class _Rotate(torch.autograd.Function):
    """Multiply pairs of channels by e^(i angle).

    In the backward pass the gradients of pairs are turned back, and the gradient of each angle is Im(g y*), with g the
    gradient of the output y.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, angle: Tensor, rotation: Tensor, back: Tensor) -> Tensor:
        """Rotate x [..., K] by `rotation`, complex [..., K/2].

        `angle` is there for its gradient, and `back` is the complex conjugate of `rotation`.
        """
        out = torch.view_as_real(_pairs(x) * rotation).flatten(-2)
        ctx.back, ctx.shape = back, angle.shape
        ctx.save_for_backward(*([out] if ctx.needs_input_grad[1] else []))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of x and of the angles."""
        pairs = _pairs(grad)
        back = torch.view_as_real(pairs * ctx.back).flatten(-2)
        if not ctx.needs_input_grad[1]:
            return back, None, None, None
        (out,) = ctx.saved_tensors
        return back, (pairs * _pairs(out).conj()).sum_to_size(ctx.shape).imag, None, None


def _pairs(x: Tensor) -> Tensor:
    """Channels (2i, 2i+1) as one complex number. [..., K] -> complex [..., K/2]"""
    pairs = x.unflatten(-1, (-1, 2))
    if pairs.stride(-1) != 1 or any(step % 2 for step in pairs.stride()[:-1]) or pairs.storage_offset() % 2:
        pairs = pairs.contiguous()
    return torch.view_as_complex(pairs)


def rotate_pairs(x: Tensor, rotations: Rotations) -> Tensor:
    """Rotate channels (2i, 2i+1) of each head, as one complex number. [..., N, K] -> the same shape and dtype

    Channels of any smaller type than float32 are rotated in float32.
    """
    vectors = wide(x)
    if torch.compiler.is_compiling():
        return _written_out(vectors, rotations).to(x.dtype)
    out: Tensor = _Rotate.apply(vectors, *rotations.of(vectors.dtype))
    return out.to(x.dtype)


def _written_out(x: Tensor, rotations: Rotations) -> Tensor:
    """`_Rotate` without complex numbers, for which compilers have no code. float32 or float64 [..., K] -> the same

    Angles get their gradient from a further turn, by 0.
    """
    cos, sin = rotations.turns.to(x.dtype).unbind(-1)
    further = (rotations.angle - rotations.angle.detach()).to(x.dtype)
    cos, sin = cos - sin * further, sin + cos * further
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def rotate_halves(x: Tensor, rotations: Rotations) -> Tensor:
    """Rotate channels (i, i + K/2) of each head, as one complex number. [..., N, K] -> the same shape and dtype"""
    side_by_side = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    return rotate_pairs(side_by_side, rotations).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
