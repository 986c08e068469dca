"""Settings of a process that make it faster and change no result."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

_LOOK = 0.15  # seconds in which other programs are looked at
_BUSY = 0.5  # cores
_SPINS = "10000"  # of libgomp's loop, some microseconds: about as fast as its own choice, which is up to 300,000
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


def share_cores() -> None:
    """Before torch is imported: how its threads wait for one another, unless the environment says it already.

    Threads that spin while they wait are fast on a quiet machine. Where other programs use the cores they spin in the
    place of the thread that they wait for, and training took up to six times as long; there they sleep. No result
    depends on it, as the number of threads stays.
    """
    if "torch" in sys.modules or any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")):
        return
    before = _ticks()
    time.sleep(_LOOK)
    if busy_cores(before, _ticks(), _LOOK, counts_nice=os.nice(0) > 0) >= _BUSY:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    else:
        os.environ["GOMP_SPINCOUNT"] = _SPINS  # so that others who come later find room


Ticks = dict[int, list[int]]  # of each core: those of user, nice, system, idle, iowait, irq, softirq, steal


def _ticks() -> Ticks:
    """Of the cores that this process may use; none where the system does not tell."""
    try:
        own = os.sched_getaffinity(0)
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except (OSError, AttributeError):
        return {}
    found = {int(words[0][3:]): [int(word) for word in words[1:9]] for words in lines if words[0][3:].isdigit()}
    return {core: ticks for core, ticks in found.items() if core in own}


def busy_cores(before: Ticks, after: Ticks, seconds: float, *, counts_nice: bool) -> float:
    """How many cores others kept busy between two looks. `counts_nice`: programs that give way to others, too."""
    busy = [0, 1, 2, 5, 6, 7] if counts_nice else [0, 2, 5, 6, 7]
    spent = sum(after[core][i] - before[core][i] for core in before.keys() & after.keys() for i in busy)
    return spent / (seconds * os.sysconf("SC_CLK_TCK"))
