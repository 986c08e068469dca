"""How much memory there is, and which errors say that there is not enough."""

from __future__ import annotations

import os
from pathlib import Path

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
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
)


@pytest.mark.parametrize(
    ("group", "limits", "maximum"),
    [
        ("/", {}, MACHINE),
        ("/", {"memory.max": "max"}, MACHINE),
        ("/job/step", {"job/memory.max": "2000", "job/step/memory.max": "max"}, 2000),  # of an outer group
        ("/docker/abc", {"memory.max": "3000"}, 3000),  # a container does not see its own path
    ],
)
def test_control_groups_limit_the_memory(tmp_path: Path, group: str, limits: dict[str, str], maximum: int) -> None:
    files = {f"sys/fs/cgroup/{path}": limit for path, limit in limits.items()} | {"proc/self/cgroup": f"0::{group}"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    assert memory.most_memory(tmp_path) == maximum
    assert memory.most_memory(tmp_path / "nothing") == MACHINE


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_of_allocators_become_one_message(error: Exception) -> None:
    with pytest.raises(RunError) as caught, memory.explained("training", 64, 59_000.6):
        raise error
    assert caught.value.what.startswith("the GPU" if "CUDA" in str(error) else "this machine")
    assert caught.value.got == "training in batches of 64 rows of about 59,001 tokens"
    assert "`batch_size`" in (caught.value.fix or "")


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="mat1"), memory.explained("training", 64, 1.0):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
