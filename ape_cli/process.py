"""What is set once for a whole process, for speed alone; and the processor that it runs on."""

from __future__ import annotations

import ctypes
import platform
import sys
from contextlib import suppress
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def keep_memory() -> None:
    """What is freed stays with the process, to be used again: fresh pages cost more than a pass over them.

    glibc gives blocks of 32 MiB and more back at once, and what lies free at the end of its heap too. Other
    allocators are left as they are.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without it
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, 2**30)
            mallopt(_TRIM_THRESHOLD, -1)  # never


def tune() -> None:
    """Before tensors are computed with: memory is kept, and denormal numbers, up to 30 times slower, are zeros."""
    import torch

    keep_memory()
    torch.set_flush_denormal(True)


def processor() -> dict[str, str]:
    """The name of the CPU and the instruction set that torch's own kernels use, for example `AVX2`.

    Both decide in which order sums are taken, and so the last digits of a result.
    """
    import torch

    name = platform.processor() or platform.machine()
    with suppress(OSError):  # Linux alone has the file
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = next(iter(found), name)
    return {"name": name, "instruction_set": torch.backends.cpu.get_cpu_capability()}
