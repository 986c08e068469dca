"""In which precision matrices are multiplied.

`fp32`: float32 throughout; the only one for runs whose last digits matter. `tf32`: float32 whose products are rounded
to 10 bits of mantissa on the way into a GPU's matrix units: weights, activations and sums stay float32. Several times
faster on such a GPU; a CPU has no such units. `bf16`: products in bfloat16 by torch's autocast, with 8 bits of
mantissa, sums and weights in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ape_cli.core.errors import UsageError

NAMES = ["fp32", "tf32", "bf16"]


def check_precision(name: str, device: torch.device) -> None:
    """Raises `UsageError` where a device cannot train in a precision."""
    if name == "tf32" and device.type != "cuda":
        raise UsageError(
            "TF32 is a format of GPUs",
            got=f"--precision tf32 on {device.type}",
            allowed="fp32, bf16",
            fix="--device cuda",
        )


@contextmanager
def products(name: str) -> Iterator[None]:
    """Within it, forward and backward, products of float32 are rounded to TF32 if `name` is tf32, and not otherwise.

    For GPUs. Nothing changes on a CPU.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = name == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
