"""How much memory there is, and which errors say that there is not enough."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from ape_cli.core import memory
from ape_cli.core.errors import RunError

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
CPU = """[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to \
allocate 14400000000 bytes. Error code 12 (Cannot allocate memory)"""
GPU = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
ERRORS = (
    MemoryError(),
    np._core._exceptions._ArrayMemoryError((9, 9), np.dtype(float)),  # type: ignore[attr-defined]
    pa.ArrowMemoryError("malloc of size 512 failed"),
    RuntimeError(CPU),
    torch.OutOfMemoryError(GPU),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
)


def system(root: Path, groups: str, limits: dict[str, str], swap: int = 0) -> Path:
    """Writes the files of a system. `limits`: the content of files in `sys/fs/cgroup`, by their paths."""
    files = {f"sys/fs/cgroup/{path}": f"{limit}\n" for path, limit in limits.items()}
    files |= {"proc/self/cgroup": groups, "proc/meminfo": f"MemTotal: 1 kB\nSwapTotal: {swap} kB\n"}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "most"),
    [
        ("0::/\n", {}, MACHINE),
        ("0::/\n", {"memory.max": "max"}, MACHINE),
        ("0::/\n", {"memory.max": "1000"}, 1000),
        ("0::/job/step\n", {"job/memory.max": "2000", "job/step/memory.max": "max"}, 2000),  # of an outer group
        ("0::/docker/abc\n", {"memory.max": "3000"}, 3000),  # a container does not see its own path
    ],
)
def test_control_groups_limit_the_memory(tmp_path: Path, groups: str, limits: dict[str, str], most: int) -> None:
    assert memory.most_memory(system(tmp_path, groups, limits)) == most


def test_the_first_version_of_control_groups_has_other_files(tmp_path: Path) -> None:
    name = "memory.limit_in_bytes"
    limits = {f"memory/job/{name}": "4000", f"memory/{name}": "9223372036854771712"}
    root = system(tmp_path, "5:cpu,cpuacct:/a\n4:memory:/job\n0::/\n", limits)
    assert memory.most_memory(root) == 4000


def test_swap_counts_and_other_systems_have_no_such_files(tmp_path: Path) -> None:
    assert memory.most_memory(tmp_path / "nothing") == MACHINE
    assert memory.most_memory(system(tmp_path, "0::/\n", {"memory.max": "1000"}, swap=3)) == 1000 + 3 * 1024


def fail(error: Exception, batches: list[Any]) -> None:
    """Fails after some batches."""
    with memory.explained("training", 64, 59_000.6) as watch:
        list(watch(batches))
        raise error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_of_allocators_become_one_message(error: Exception) -> None:
    """It names batch size and length, which is the mean before the first batch."""
    device = "the GPU" if "CUDA" in str(error) else "this machine"
    batches = [SimpleNamespace(length=7), SimpleNamespace(length=60_001)]
    for count, length in ((0, "about 59,001"), (1, "up to 7"), (2, "up to 60,001")):
        with pytest.raises(RunError) as caught:
            fail(error, batches[:count])
        assert caught.value.what == f"{device} has not enough memory"
        assert caught.value.got == f"training in batches of 64 rows of {length} tokens"
        assert "`batch_size`" in (caught.value.fix or "")
        assert caught.value.exit_code == 1


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), KeyError("x")])
def test_other_errors_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        fail(error, [])
    assert caught.value is error
