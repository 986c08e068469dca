"""Dropout and linear layers that a CPU computes faster than those of torch.

Dropout: torch draws the numbers of a mask one at a time on a CPU, which took a third of a training step. Here 16 bits
decide about an element, and a random word serves four elements. A probability between 0 and 1 is rounded to a multiple
of 2^-16 that is neither 0 nor 1. The elements that are kept are scaled by the rounded probability, so the mean is
exact. The words come from torch's own generator, whose state is stored with a run, so a resumed run draws the same
numbers. On a GPU and within torch.compile, torch's own dropout is used. After a ReLU, dropout needs no mask in the
backward pass: an element has a gradient where the result is positive. Source: Srivastava et al. 2014, JMLR 15, section
4; scaled in training, not in evaluation.

Linear layers in float32: PyTorch multiplies with MKL. On an AMD processor, MKL uses AVX2 even if the processor has
AVX-512. oneDNN uses AVX-512 there, and is up to twice as fast at the same accuracy, except for matrices with few rows
and for small batched products. `torch.backends.mkldnn.matmul.fp32_precision = "bf16"` sends products to oneDNN. It also
allows oneDNN to round factors to bfloat16, which it does only on processors with AMX. On these, and on processors of
other makers, MKL is used. So the arithmetic is float32 everywhere, and a test compares it with float64.

The choice depends on the processor and the number of rows, so a run is the same each time on one machine. `run.json`
names the library. Another library acts like another processor: it adds numbers in another order.

Shapes: T rows (tokens of all rows of a batch), I channels of the input, O channels of the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli.core import runtime

_STEPS = 2**16  # values of the 16-bit number that decides whether an element is dropped
_LEAST = 1_000  # rows from which on oneDNN is faster


def usual_library() -> str:
    """The library by which PyTorch multiplies float32 matrices on this machine's CPU: `MKL`, or `BLAS` for others."""
    return "MKL" if torch.backends.mkl.is_available() else "BLAS"


@cache
def library() -> str:
    """The library for large linear layers in float32 on this machine's CPU: `oneDNN`, or the usual one."""
    onednn = torch.backends.mkldnn
    can_choose = onednn.is_available() and hasattr(onednn, "matmul")  # from torch 2.9 on
    faster = (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and runtime.is_amd()
        and not runtime.has_instructions("amx_tile")
    )
    return "oneDNN" if can_choose and faster else usual_library()


class LinearLayer(nn.Linear):
    """`nn.Linear`, by the faster library."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer. [..., I] -> [..., O]"""
        return affine(x, self.weight, self.bias)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b. [..., I], [O, I], [O] -> [..., O]"""
    out: Tensor = (_Linear.apply if _is_faster(x, weight) else functional.linear)(x, weight, bias)
    return out


def _is_faster(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN computes this layer faster, at the same precision."""
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() >= _LEAST * x.shape[-1]
        and x.is_contiguous()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and library() == "oneDNN"
    )


@contextmanager
def _by_onednn() -> Iterator[None]:
    """Compute products with oneDNN within this context."""
    products = torch.backends.mkldnn.matmul  # type: ignore[attr-defined] # torch has no types for it
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    try:
        yield
    finally:
        products.fp32_precision = before


class _Linear(torch.autograd.Function):
    """A linear layer by oneDNN, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W' + b. [..., I], [O, I], [O] -> [..., O]"""
        ctx.save_for_backward(x, weight)
        with _by_onednn():
            return functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the input, the weight and the bias. [..., O] -> [..., I], [O, I], [O]"""
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])  # [T, O]
        of_x = of_weight = of_bias = None
        with _by_onednn():
            if ctx.needs_input_grad[0]:
                of_x = (rows @ weight).view(x.shape)
            if ctx.needs_input_grad[1]:
                of_weight = rows.mT @ x.flatten(0, -2)
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(0)
        return of_x, of_weight, of_bias


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
