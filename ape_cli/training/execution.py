"""How a training is executed: device, processes, stop signal and loggers.

Nothing in this module changes the name or the configuration of a run.

Data parallelism: several processes train one run together, each on its share of every batch. torchrun starts the
processes. Its variables RANK, WORLD_SIZE and LOCAL_RANK give each process its rank. A process without them is a
`ProcessGroup` of size 1. All ranks make the same batches and hold the same weights, and each computes its own rows.
Gradients are summed over the ranks (`process_group.py`). A run is therefore the same with any number of ranks, up to
rounding and the masks of dropout, which each rank draws from its own stream.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

import torch

from ape_cli.core.errors import UsageError, messages_to
from ape_cli.core.runtime import is_launched
from ape_cli.training.loggers import LoggerFactory
from ape_cli.training.process_group import SINGLE_PROCESS, DistributedGroup, ProcessGroup, await_store


class ExistingRun(Enum):
    """What to do if the run does not exist, or if it exists and is not finished.

    Only `OVERWRITE` changes a finished run.
    """

    REFUSE = auto()  # start a new run; an unfinished one with a checkpoint is an error
    RESUME = auto()  # resume a stopped or failed run; a missing one is an error
    RESUME_OR_START = auto()  # resume a stopped or failed run, or start a new one
    OVERWRITE = auto()  # delete the existing run and start a new one


@dataclass(frozen=True)
class Execution:
    """The device and the process group that train, the stop signal, and the loggers of metrics."""

    device: torch.device
    compiled: bool = False  # whether to use torch.compile; results stay the same within floating-point tolerance
    stop: Callable[[], bool] = lambda: False  # called after each step; True means: store the state and stop
    group: ProcessGroup = SINGLE_PROCESS
    loggers: Sequence[LoggerFactory] = ()  # opened for each run, on the first rank only


@contextmanager
def joined() -> Iterator[ProcessGroup]:
    """The process group that torchrun's variables describe, or the group of a single process without them.

    If the block raises errors, only the first rank that fails raises its error. The other ranks exit with the exit
    codes of their errors. Raises `UsageError` if the variables are wrong, and `RankFailedError` if a process does not
    start.
    """
    if not is_launched():
        yield SINGLE_PROCESS
        return
    import torch.distributed as dist

    group = _from_environment()
    try:
        with nullcontext() if group.first else messages_to(lambda message: None):  # the first rank logs them
            group.meet("start")
            yield group
        if dist.is_initialized():  # the run was stopped
            group.any(True)  # torchrun ends all ranks once one has ended, so all wait until the state is stored
            dist.destroy_process_group()
    except BaseException as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends it to all ranks once one has ended
        reports_error = group.reports_error()
        _free_group(error)
        if reports_error:
            raise
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)) from None


def _free_group(error: BaseException) -> None:
    """Free the process group after an error. The traceback of the error holds the model, which holds the group.

    A process that ends while the threads of the group run may abort, and then ends by a signal without its exit code.
    """
    import torch.distributed as dist

    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    if dist.is_initialized():
        dist.destroy_process_group()


def _from_environment() -> DistributedGroup:
    """The group of torchrun's variables, for which the first rank, or torchrun itself, holds the store.

    Raises `UsageError` if they are wrong, or if the store cannot be created or reached.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]
    from torch.distributed.distributed_c10d import PrefixStore

    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR")
    values = {name: os.environ.get(name, "") for name in names}
    host = values["MASTER_ADDR"]
    wrong = partial(
        UsageError,
        "the processes of this run cannot find each other",
        allowed="RANK below WORLD_SIZE, and in all processes the same MASTER_ADDR and MASTER_PORT, a free port",
        fix="start the command with torchrun, which sets these variables, or unset RANK",
    )
    got = ", ".join(f"{name}={value or 'unset'}" for name, value in values.items())
    try:
        rank, size, local, port = (int(values[name]) for name in names[:4])
    except ValueError:
        raise wrong(got=got) from None
    if not (host and 0 <= rank < size and 0 <= local and 0 < port < 2**16):
        raise wrong(got=got)
    holds_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not holds_store:
        await_store(rank, host, port)
    try:
        store = TCPStore(host, port, size, holds_store, wait_for_workers=False)
    except RuntimeError as error:
        raise wrong(got=f"{got}: {str(error).splitlines()[0]}") from error
    return DistributedGroup(rank, size, local, PrefixStore("ape", store))
