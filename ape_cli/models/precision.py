"""The precision in which matrices are multiplied.

- `fp32` is float32 throughout. It is the only one for runs whose last digits matter.
- `tf32` is float32, but the matrix units of a GPU round the factors of a product to 10 bits of mantissa. Weights,
  activations and sums stay float32. It is several times faster on such a GPU. A CPU has no such units.
- `bf16` computes products in bfloat16, with 8 bits of mantissa, by torch's autocast. Sums and weights stay float32. On
  a CPU, models with fewer than 128 channels are computed in float32, because bfloat16 would be slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ape_cli.core import cpu
from ape_cli.core.errors import UsageError

NAMES = ["fp32", "tf32", "bf16"]
_WIDE = 128  # channels from which on bfloat16 is faster than float32 on a CPU


def check_precision(name: str, device: torch.device) -> None:
    """Check that a device supports a precision. Raises `UsageError` if it does not."""
    if name == "tf32" and device.type != "cuda":
        raise UsageError("TF32 needs a GPU", got=f"`precision=tf32` on {device.type}", fix="`precision=fp32`")


def multiplies_bfloat16() -> bool:
    """Whether this machine's CPU has instructions for products in bfloat16."""
    return cpu.has("avx512_bf16", "amx_bf16", "bf16")  # the last one is ARM's


def remark(name: str, device: torch.device, width: int) -> str:
    """What to know about a precision on a device, for a model with `width` channels. Empty if there is nothing."""
    if name != "bf16" or device.type != "cpu":
        return ""
    if width < _WIDE:
        return f"models with fewer than {_WIDE} channels are computed in fp32 on a CPU, because bf16 would be slower"
    return "" if multiplies_bfloat16() else "this processor has no instructions for bfloat16: fp32 is faster"


@contextmanager
def products(name: str) -> Iterator[None]:
    """Within this context, round float32 products to TF32 if `name` is `tf32`, and otherwise do not.

    This holds for forward and backward. It is for GPUs. Nothing changes on a CPU.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


@contextmanager
def forward_pass(name: str, device: torch.device, width: int) -> Iterator[None]:
    """Within this context, compute the forward pass of a model with `width` channels in bfloat16 if `name` is `bf16`.

    The backward pass rounds where the forward pass did.
    """
    rounds = name == "bf16" and (device.type != "cpu" or width >= _WIDE)
    with torch.autocast(device.type, torch.bfloat16, enabled=rounds):
        yield
