"""Linear layers in float32 on a CPU, computed by the faster of PyTorch's two libraries.

PyTorch multiplies float32 matrices with MKL. On an AMD processor, MKL uses AVX2 even if the processor has AVX-512.
oneDNN uses AVX-512 there. It is up to twice as fast at the same accuracy, except for matrices with few rows and for
small batched products.

`torch.backends.mkldnn.matmul.fp32_precision = "bf16"` sends products to oneDNN. It also allows oneDNN to round factors
to bfloat16, which it does only on processors with AMX. On these, and on processors of other makers, MKL is used. So
the arithmetic is float32 everywhere, and a test compares it with float64.

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

from ape_cli.core import cpu

_LEAST = 1_000  # rows from which on oneDNN is faster


def usual_library() -> str:
    """The library by which PyTorch multiplies float32 matrices on this machine's CPU: `MKL`, or `BLAS` for others."""
    return "MKL" if torch.backends.mkl.is_available() else "BLAS"


@cache
def library() -> str:
    """The library for large linear layers in float32 on this machine's CPU: `oneDNN`, or the usual one."""
    onednn = torch.backends.mkldnn
    can_choose = onednn.is_available() and hasattr(onednn, "matmul")  # from torch 2.9 on
    faster = torch.backends.cpu.get_cpu_capability() == "AVX512" and cpu.is_amd() and not cpu.has("amx_tile")
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
