"""Dropout, with masks that a CPU draws quickly.

torch draws a mask's numbers one at a time on a CPU; with dropout that took a third of a training step. Here 16 bits
decide about an element, four of them to a random word. A probability is rounded to a multiple of 2^-16, and what is
kept is scaled by the rounded one, so that the mean is exact. The words come from torch's own generator, whose state is
stored with a run, so that a resumed run draws the same. On a GPU and within torch.compile it is torch's dropout.
Source: Srivastava et al. 2014, JMLR 15, section 4; scaled in training, not in evaluation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

_STEPS = 2**16


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Each element zero with probability `p`, else divided by 1 - p. Any shape, floating point -> the same"""
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, p)
    found: Tensor = _Dropping.apply(x, p)
    return found


class Dropout(nn.Module):
    """`drop` as a layer."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p, self.training)


def mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """0 with probability `p`, as a multiple of 2^-16 that is not 0; else 1 over the probability of being kept."""
    dropped = max(1, round(p * _STEPS))
    count = shape.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    drawn = words.view(torch.int16)[:count].view(shape)  # uniform on -2^15 .. 2^15 - 1
    found = torch.empty(shape, dtype=dtype)
    torch.ge(drawn, dropped - _STEPS // 2, out=found)
    return found.mul_(_STEPS / (_STEPS - dropped))


class _Dropping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        # bfloat16 would round what is kept is scaled by, and so shift the mean
        kept = mask(x.shape, p, x.dtype if x.dtype == torch.float64 else torch.float32)
        ctx.save_for_backward(kept)
        return (x * kept).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (grad * kept).to(grad.dtype), None
