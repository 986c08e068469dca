"""What is set once for a whole process, for speed alone."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

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
