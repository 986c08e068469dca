"""Dropout that a CPU computes faster than that of torch, and linear layers by the faster library.

Torch draws the numbers of a mask one at a time on a CPU, which took a third of a training step. Here 16 bits
decide about an element, and a random word serves four elements. A probability between 0 and 1 is rounded to a multiple
of 2^-16 that is neither 0 nor 1. The elements that are kept are scaled by the rounded probability, so the mean is
exact. The words come from torch's own generator, whose state is stored with a run, so a resumed run draws the same
numbers. On a GPU and within torch.compile, torch's own dropout is used. After a ReLU, dropout needs no mask in the
backward pass: an element has a gradient where the result is positive. Source: Srivastava et al. 2014, JMLR 15, section
4; scaled in training, not in evaluation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli.position._matmul import affine

_STEPS = 2**16  # values of the 16-bit number that decides whether an element is dropped


class LinearLayer(nn.Linear):
    """`nn.Linear`, by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer. [..., I] -> [..., O]"""
        return affine(x, self.weight, self.bias)


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Set each element to zero with probability `p`, and divide the others by 1 - p.

    Floating point [...] -> the same
    """
    if not training or p == 0.0:
        return x
    if not _draws(x):
        return functional.dropout(x, p)
    dropped: Tensor = _Dropping.apply(x, p)
    return dropped


def drop_relu(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`drop` of the ReLU of x, as one function. Floating point [...] -> the same"""
    if not training or p == 0.0 or not _draws(x):
        return drop(functional.relu(x), p, training)
    dropped: Tensor = _DroppingRelu.apply(x, p)
    return dropped


def _draws(x: Tensor) -> bool:
    """Whether the mask for x is drawn here, and not by torch."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class Dropout(nn.Module):
    """`drop` as a layer, with probability `p`."""

    def __init__(self, p: float) -> None:
        """Keep the probability."""
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training mode. Floating point [...] -> the same"""
        return drop(x, self.p, self.training)


def mask(shape: torch.Size, p: float, dtype: torch.dtype) -> tuple[Tensor, float]:
    """A random mask: 0 with probability `p`, else 1, and the inverse of the probability of being kept.

    Returns `dtype` of the given shape, usually [B, N, D] or [B, H, M, N].

    `p` is rounded to a multiple of 2^-16 that is neither 0 nor 1.
    """
    dropped = min(max(1, round(p * _STEPS)), _STEPS - 1)
    count = shape.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[:count].view(shape)  # uniform on -2^15 .. 2^15 - 1
    kept = torch.empty(shape, dtype=dtype)
    torch.ge(drawn, dropped - _STEPS // 2, out=kept)
    return kept, _STEPS / (_STEPS - dropped)


class _Dropping(torch.autograd.Function):
    """Multiplication by a random mask, which the backward pass uses again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        """Draw the mask and apply it."""
        kept, scale = mask(x.shape, p, x.dtype)
        # in bfloat16, a scaled mask would be rounded, and the mean would shift
        ctx.scale = scale if x.dtype.itemsize < 4 else None
        if ctx.scale is None:
            kept *= scale
        ctx.save_for_backward(kept)
        return _times(x, kept, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Apply the mask to the gradient."""
        (kept,) = ctx.saved_tensors
        return _times(grad, kept, ctx.scale), None


def _times(x: Tensor, kept: Tensor, scale: float | None) -> Tensor:
    """x times a mask and a scale. Floating point [...] -> the same"""
    product = x * kept
    return product if scale is None else product.mul_(scale)


class _DroppingRelu(torch.autograd.Function):
    """A ReLU, multiplied by a random mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        """Draw the mask and apply it."""
        out, ctx.scale = mask(x.shape, p, x.dtype)
        out.mul_(x).clamp_min_(0.0).mul_(ctx.scale)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Pass the gradient where the result is positive."""
        (out,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, out, 0.0).mul_(ctx.scale), None
