"""This machine and this process: processor, version, and settings that make it faster but change no result."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_LOOK = 0.15  # seconds for which the load by other programs is measured
_BUSY = 0.5  # cores that others keep busy, from which on the machine counts as shared
_SPINS = "10000"  # iterations of libgomp's wait loop, some microseconds; as fast as its default of up to 300,000
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)


def keep_memory() -> None:
    """Keep freed memory in the process for reuse, because fresh pages cost more than a pass over them.

    By default, glibc returns blocks of 32 MiB and more to the system at once, and also the free memory at the end of
    its heap. Other allocators are not changed.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # not every C library has mallopt
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, 2**30)
            mallopt(_TRIM_THRESHOLD, -1)  # never trim the heap


def share_cores() -> None:
    """Choose how the threads of torch wait for each other, unless the environment decides it.

    Call it before torch is imported; afterwards it does nothing. Threads that spin while they wait are fast on an idle
    machine. If other programs use the cores, spinning threads take the place of the thread that they wait for; training
    then took up to six times as long. In this case the threads sleep instead. The number of threads does not change, so
    results do not change either.
    """
    if "torch" in sys.modules or any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")):
        return
    before = _ticks()
    time.sleep(_LOOK)
    if busy_cores(before, _ticks(), _LOOK) >= _BUSY:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    else:
        os.environ["GOMP_SPINCOUNT"] = _SPINS  # so that programs that start later get their share


Ticks = dict[int, list[int]]  # core -> its ticks of user, nice, system, idle, iowait, irq, softirq, steal


def _ticks() -> Ticks:
    """The ticks of the cores that this process may use; empty if the system does not report them."""
    try:
        allowed = os.sched_getaffinity(0)
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except (OSError, AttributeError):
        return {}
    ticks_of = {int(words[0][3:]): [int(word) for word in words[1:9]] for words in lines if words[0][3:].isdigit()}
    return {core: ticks for core, ticks in ticks_of.items() if core in allowed}


def busy_cores(before: Ticks, after: Ticks, seconds: float) -> float:
    """How many cores were busy on average between two measurements that are `seconds` apart.

    Programs with a low priority (nice) do not count.
    """
    spent = sum(after[core][i] - before[core][i] for core in before.keys() & after.keys() for i in (0, 2, 5, 6, 7))
    return spent / (seconds * os.sysconf("SC_CLK_TCK"))


@cache
def _entries() -> dict[str, str]:
    """The entries of /proc/cpuinfo for the first core. Empty if the system is not Linux."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
        entries = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in entries}
    return {}


def processor_name() -> str:
    """The name of the processor, or of its architecture if the system does not tell."""
    return _entries().get("model name") or platform.processor() or platform.machine()


def amd_family() -> int:
    """The family of an AMD processor: 25 is Zen 3 and 4, 26 is Zen 5. 0 for others, and if the system does not tell."""
    entries = _entries()
    return int(entries.get("cpu family", 0)) if entries.get("vendor_id") == "AuthenticAMD" else 0


def has_instructions(*flags: str) -> bool:
    """Whether the processor has any of these instruction sets, by the names of Linux. False if it does not tell."""
    available = f"{_entries().get('flags', '')} {_entries().get('Features', '')}"  # of x86 and of ARM
    return not set(flags).isdisjoint(available.split())


def is_launched() -> bool:
    """Whether torchrun has started this process, together with others."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    return all(name in os.environ for name in names) and os.environ["WORLD_SIZE"] != "1"


def version() -> str:
    """The version of the installed package; `0+unknown` if it is used without being installed."""
    from importlib import metadata  # slow to import

    try:
        return metadata.version("ape-cli")
    except metadata.PackageNotFoundError:
        return "0+unknown"
