"""The precision in which matrices are multiplied.

- `fp32` is float32 throughout. It is the only one for runs whose last digits matter.
- `tf32` is float32, but the matrix units of a GPU round the factors of a product to 10 bits of mantissa. Weights,
  activations and sums stay float32. It is several times faster on such a GPU. A CPU has no such units.
- `bf16` computes products in bfloat16, with 8 bits of mantissa, by torch's autocast. Sums and weights stay float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ape_cli.core.errors import UsageError

NAMES = ["fp32", "tf32", "bf16"]


def check_precision(name: str, device: torch.device) -> None:
    """Check that a device supports a precision. Raises `UsageError` if it does not."""
    if name == "tf32" and device.type != "cuda":
        raise UsageError(
            "TF32 needs a GPU",
            got=f"--precision tf32 on {device.type}",
            allowed="fp32, bf16",
            fix="--device cuda",
        )


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
