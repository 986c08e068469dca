"""The memory that this process may use, and errors that say that there is not enough of it.

A container or a batch job may use less than the memory of the machine, if a control group (cgroup, version 1 or 2) or
`ulimit -v` limits it. Swap space counts as memory.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from ape_cli.core.errors import RunError

_TEXTS = ("out of memory", "DefaultCPUAllocator", "ALLOC_FAILED")  # in a `RuntimeError` of torch


class _Padded(Protocol):
    """A batch of rows."""

    @property
    def length(self) -> int:
        """The number of tokens of its longest row; 0 if it has none."""


_Batch = TypeVar("_Batch", bound=_Padded)


def most_memory(system: Path = Path("/")) -> int:
    """The most bytes that this process may use. `system` is the root of the file system, with `proc` and `sys`."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [min([machine, *_of_control_groups(system)]) + _swap(system)]
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(limits if addresses == resource.RLIM_INFINITY else [*limits, addresses])


def _of_control_groups(system: Path) -> Iterator[int]:
    """The limits of the control groups that this process is in, in bytes. There are none if the system is not Linux.

    In a container, the paths of `/proc/self/cgroup` may not exist. Its own limit is then that of the topmost folder.
    """
    with suppress(OSError):
        for line in (system / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = system / "sys/fs/cgroup" / ("memory" if controllers else "")
            folder = top / path.lstrip("/")
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            for group in (folder, *folder.parents):
                with suppress(OSError, ValueError):  # it does not exist, or is `max`
                    yield int((group / name).read_text())
                if group == top:
                    break


def _swap(system: Path) -> int:
    """The swap space in bytes; 0 if the system is not Linux."""
    with suppress(OSError):
        for line in (system / "proc/meminfo").read_text().splitlines():
            if line.startswith("SwapTotal:"):
                return 1024 * int(line.split()[1])
    return 0


class OutOfMemoryError(RunError):
    """There is not enough memory. A run that ends with it can be resumed."""


def ran_out(error: BaseException) -> bool:
    """Whether an exception says that there is not enough memory, on the host or on a GPU."""
    if isinstance(error, MemoryError):  # also those of NumPy and Arrow
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


class LengthWatch:
    """Passes on batches, and knows the length of the last one."""

    length = 0

    def __call__(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """Yield the same batches."""
        for batch in batches:
            self.length = batch.length
            yield batch


@contextmanager
def explained(doing: str, batch_size: int, mean: float) -> Iterator[LengthWatch]:
    """A context that turns errors of memory into `OutOfMemoryError`, which names batch size and length.

    `doing` says what the program does. The length is that of the last batch that the `LengthWatch` has passed on.
    Before the first one it is the `mean` number of tokens of a row.
    """
    watch = LengthWatch()
    try:
        yield watch
    except Exception as error:
        if not ran_out(error):
            raise
        length = f"up to {watch.length:,}" if watch.length else f"about {mean:,.0f}"
        batches = f"in batches of {batch_size:,} row{'s' * (batch_size > 1)} of {length} tokens"
        fewer = "a smaller `batch_size`, shorter rows or a smaller model"
        raise out_of_memory(error, fewer, f"{doing} {batches}") from error


def out_of_memory(error: BaseException, fewer: str = "smaller sizes", doing: str | None = None) -> OutOfMemoryError:
    """The error for one that an allocator raised. `fewer` says what would need less, and `doing` what was done."""
    where = "the GPU" if "CUDA" in str(error) else "this machine"
    fix = f"choose {fewer}, or end other programs that need memory"
    return OutOfMemoryError(f"{where} has not enough memory", got=doing, fix=fix)
