"""The device on which tensors are computed, and the precision in which matrices are multiplied.

- `fp32` is float32 throughout. It is the only one for runs whose last digits matter.
- `tf32` is float32, but the matrix units of a GPU round the factors of a product to 10 bits of mantissa. Weights,
  activations and sums stay float32. It is several times faster on such a GPU. A CPU has no such units.
- `bf16` computes products in bfloat16, with 8 bits of mantissa, by torch's autocast. Sums and weights stay float32. On
  a CPU, models with fewer than 128 channels are computed in float32, because bfloat16 would be slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ape_cli.core import runtime
from ape_cli.core.errors import UsageError, pick
from ape_cli.position._matmul import rule

_WIDE = 128  # channels from which on bfloat16 is faster than float32 on a CPU


def choose_device(name: str, threads: int | None = None) -> torch.device:
    """The device for a name, which is `auto`, `cpu` or `cuda`. `auto` means CUDA if there is a CUDA device.

    `threads` sets the number of CPU threads; None keeps torch's own choice. Raises `UsageError` for an unknown name,
    for a number of threads out of range, and for `cuda` on a machine without a CUDA device.
    """
    if threads is not None:
        if not 1 <= threads <= 4096:
            raise UsageError("bad `threads`", got=threads, allowed="1 to 4096", fix="leave it out for all cores")
        torch.set_num_threads(threads)
    pick("device", name, ["auto", "cpu", "cuda"])
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "no CUDA device is available", got="`device=cuda`", allowed="auto, cpu", fix="leave `device` out"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def gpu_count() -> int:
    """The number of CUDA devices of this machine."""
    return torch.cuda.device_count()


def use_gpu(device: torch.device, worker: int) -> None:
    """Make a worker use one of the machine's GPUs, in turn, if `device` is a GPU."""
    if device.type == "cuda":
        torch.cuda.set_device(worker % torch.cuda.device_count())


def tune() -> None:
    """Set up the process before tensors are used: keep freed memory, and treat denormal numbers as zeros.

    Denormal numbers are up to 30 times slower.
    """
    runtime.keep_memory()
    torch.set_flush_denormal(True)


def describe(device: torch.device) -> dict[str, Any]:
    """The description of the machine that `run.json` stores.

    It has the version of torch, the device, the name of the GPU if it is one, the processor and the number of
    threads.
    """
    gpu = {"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
    return {
        "torch": torch.__version__,
        "device": str(device),
        **gpu,
        "processor": processor(),
        "threads": torch.get_num_threads(),
    }


def processor() -> dict[str, str]:
    """The name of the CPU, the instruction set of torch's own kernels, and the library that multiplies matrices.

    They decide the order in which sums are computed, and so the last digits of a result. For example, the instruction
    set is `AVX2`, and the library is `oneDNN` or `MKL`.
    """
    return {
        "name": runtime.processor_name(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "products": rule().name,
    }


def check_precision(name: str, device: torch.device) -> None:
    """Check that a device supports a precision. Raises `UsageError` if it does not."""
    if name == "tf32" and device.type != "cuda":
        raise UsageError("TF32 needs a GPU", got=f"`precision=tf32` on {device.type}", fix="`precision=fp32`")


def multiplies_bfloat16() -> bool:
    """Whether this machine's CPU has instructions for products in bfloat16."""
    return runtime.has_instructions("avx512_bf16", "amx_bf16", "bf16")  # the last one is ARM's


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
