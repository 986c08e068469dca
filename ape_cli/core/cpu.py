"""What the system says about the processor: its name, its maker and its instructions."""

from __future__ import annotations

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def _facts() -> dict[str, str]:
    """The entries of /proc/cpuinfo for the first core. Empty if the system is not Linux."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
        entries = (line.partition(":") for line in first.splitlines())
        return {name.strip(): value.strip() for name, _, value in entries}
    return {}


def name() -> str:
    """The name of the processor, or of its architecture if the system does not tell."""
    return _facts().get("model name") or platform.processor() or platform.machine()


def is_amd() -> bool:
    """Whether AMD made the processor. False if the system does not tell."""
    return _facts().get("vendor_id") == "AuthenticAMD"


def has(*flags: str) -> bool:
    """Whether the processor has any of these instruction sets, by the names of Linux. False if it does not tell."""
    known = f"{_facts().get('flags', '')} {_facts().get('Features', '')}"  # of x86 and of ARM
    return not set(flags).isdisjoint(known.split())
