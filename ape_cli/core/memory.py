"""The memory that this process may use, and errors that say that there is not enough of it.

A container or a batch job may use less than the memory of the machine, if a control group (cgroup version 2) or
`ulimit -v` limits it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ape_cli.core.errors import RunError
from ape_cli.core.numbers import counted

_TEXTS = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")  # in a `RuntimeError` of torch


def most_memory(system: Path = Path("/")) -> int:
    """The most bytes that this process may use. `system` is the root of the file system, with `proc` and `sys`.

    In a container, the path in `/proc/self/cgroup` may not exist. Its own limit is then that of the topmost folder.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        limits.append(addresses)
    with suppress(OSError):  # the system is not Linux
        path = (system / "proc/self/cgroup").read_text().strip().rpartition("::/")[2]
        group = system / "sys/fs/cgroup" / path
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # it does not exist, or is `max`
                limits.append(int((folder / "memory.max").read_text()))
    return min(limits)


def half_memory() -> int:
    """Half of the memory that this process may use, in bytes: the most that the content of a file may need."""
    return most_memory() // 2


class OutOfMemoryError(RunError):
    """There is not enough memory. A run that ends with it can be resumed."""


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that there is not enough memory, on the host or on a GPU."""
    if isinstance(error, MemoryError):  # also those of NumPy and Arrow
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


@contextmanager
def explained(doing: str, batch_size: int, mean: float) -> Iterator[None]:
    """A context that turns errors of memory into `OutOfMemoryError`, which names batch size and mean length.

    `doing` says what the program does. `mean` is the mean number of tokens of a row.
    """
    try:
        yield
    except Exception as error:
        if not ran_out(error):
            raise
        batches = f"in batches of {counted(batch_size, 'row')} of about {mean:,.0f} tokens"
        fewer = "a smaller `batch_size`, shorter rows or a smaller model"
        raise out_of_memory(error, fewer, f"{doing} {batches}") from error


def out_of_memory(error: BaseException, fewer: str = "smaller sizes", doing: str | None = None) -> OutOfMemoryError:
    """The error for one that an allocator raised. `fewer` says what would need less, and `doing` what was done."""
    where = "the GPU" if "CUDA" in str(error) else "this machine"
    fix = f"choose {fewer}, or end other programs that need memory"
    return OutOfMemoryError(f"{where} does not have enough memory", got=doing, fix=fix)
