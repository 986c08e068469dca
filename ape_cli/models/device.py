"""The device on which tensors are computed: how it is chosen, set up and described."""

from __future__ import annotations

from typing import Any

import torch

from ape_cli.attention._linear_layer import library
from ape_cli.core import cpu, runtime
from ape_cli.core.errors import UsageError, pick


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
        "name": cpu.name(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "products": library(),
    }
