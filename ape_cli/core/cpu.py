"""What the system says about this machine: its memory, and the name, maker and instructions of its processor."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache
from pathlib import Path


def half_memory() -> int:
    """Half of the memory of this machine in bytes: the most that the content of a file, or a model, may need."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@cache
def _entries() -> dict[str, str]:
    """The entries of /proc/cpuinfo for the first core. Empty if the system is not Linux."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
        entries = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in entries}
    return {}


def name() -> str:
    """The name of the processor, or of its architecture if the system does not tell."""
    return _entries().get("model name") or platform.processor() or platform.machine()


def is_amd() -> bool:
    """Whether AMD made the processor. False if the system does not tell."""
    return _entries().get("vendor_id") == "AuthenticAMD"


def has(*flags: str) -> bool:
    """Whether the processor has any of these instruction sets, by the names of Linux. False if it does not tell."""
    known = f"{_entries().get('flags', '')} {_entries().get('Features', '')}"  # of x86 and of ARM
    return not set(flags).isdisjoint(known.split())
