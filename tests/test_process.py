"""What is set for a whole process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
from ape_cli import process

if sys.argv[1] == "kept":
    process.keep_memory()
size = 2**26
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    b"x" * size  # which glibc gives back else
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_memory_is_kept() -> None:
    """The third block of a size has the pages of the second."""

    def faults(mode: str) -> int:
        return int(subprocess.run([sys.executable, "-c", FAULTS, mode], capture_output=True, check=True).stdout)

    assert faults("kept") < 100
    assert faults("not kept") > 1000


def test_it_is_no_error_where_there_is_nothing_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    from ape_cli import process

    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    process.keep_memory()
