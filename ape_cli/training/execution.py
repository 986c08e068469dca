"""How a training is executed: device, processes, stop signal and loggers.

Nothing in this module changes the name or the configuration of a run.

Data parallelism: several processes train one run together, each on its share of every batch. torchrun starts the
processes. Its variables RANK, WORLD_SIZE and LOCAL_RANK give each process its rank. A process without them is a
`ProcessGroup` of size 1. All ranks make the same batches and hold the same weights, and each computes its own rows.
Gradients are summed over the ranks. A run is therefore the same with any number of ranks, up to
rounding and the masks of dropout, which each rank draws from its own stream.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli.core.errors import RunError, UsageError, messages_to
from ape_cli.core.runtime import is_launched
from ape_cli.data.batches import WHOLE, Share
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Tensors, of_rank
from ape_cli.models.transformer import Model
from ape_cli.runs.config import read_config
from ape_cli.training.loggers import LoggerFactory

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_POLL = 0.05  # seconds between two looks at the store
_PATIENCE = timedelta(minutes=5)  # until a process no longer waits for others to start

Stored = tuple[Tensors, dict[str, Any]]


class RankFailedError(RunError):
    """Another rank of the process group has failed or ended."""


class ProcessGroup:
    """The group of a single process, and the interface of all groups."""

    rank, size = 0, 1
    share: Share = WHOLE  # the share of each batch that this rank trains on

    @property
    def first(self) -> bool:
        """Whether this is the first rank."""
        return self.rank == 0

    def device(self, wanted: torch.device) -> torch.device:
        """The device of this process, if the user asked for `wanted`. Raises `UsageError` if there is none."""
        return wanted

    def seed(self, seed: int, step: int = 0) -> int:
        """The seed for dropout on this rank, from `step` on, in a run with the seed `seed`."""
        return seed

    def broadcast(self, make: Callable[[], Any]) -> Any:
        """Call `make` on the first rank, and return its result, a JSON value, on every rank.

        The other ranks wait without a time limit. Raises `RankFailedError` if another rank fails in the meantime.
        """
        return make()

    def experiment(self, prepare: Callable[[], Experiment]) -> Experiment:
        """Prepare an experiment on the first rank, where its dataset may be generated.

        The other ranks take its configuration and open its dataset.
        """
        first = prepare() if self.first else None
        about = first and [first.config.model_dump(mode="json"), str(first.data.folder)]
        fields, folder = self.broadcast(lambda: about)
        return first or Experiment(read_config(fields), open_dataset(folder))

    @contextmanager
    def initialised(self, device: torch.device) -> Iterator[None]:
        """The context for all methods below. Raises `RankFailedError` if another rank has ended."""
        yield

    def parallel(self, model: Model) -> nn.Module:
        """The module to call in a training step. Its gradients are the mean over all ranks."""
        return model

    def any(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is true on any rank."""
        return list(flags)

    def all_reduce(self, values: list[float]) -> list[float]:
        """The sum of each value over all ranks."""
        return values

    def all_reduce_metrics(self, sums: MetricSums) -> MetricSums:
        """The metric sums of all ranks together."""
        return sums

    def gather(self, tensors: Tensors) -> Tensors:
        """On the first rank, the tensors of all ranks, by the names of `models.checkpoint.of_rank`."""
        return tensors

    def broadcast_state(self, stored: Stored | None) -> Stored | None:
        """The checkpoint that the first rank has loaded, on every rank."""
        return stored


SINGLE_PROCESS = ProcessGroup()


class DistributedGroup(ProcessGroup):
    """The group of several processes.

    rank: among all `size` processes. local: the rank among the processes of this machine. store: torchrun's key-value
    store.
    """

    def __init__(self, rank: int, size: int, local: int, store: Store) -> None:
        """Keep the ranks and the store. `initialised` initialises the process group."""
        self.rank, self.size, self.local, self.store = rank, size, local, store
        self.share, self.broadcasts = (rank, size), 0

    def device(self, wanted: torch.device) -> torch.device:
        """The GPU of this rank, or `wanted` if that is no GPU. Raises `UsageError` if there are too few GPUs."""
        if wanted.type != "cuda":
            return wanted
        if self.local >= torch.cuda.device_count():
            got = f"LOCAL_RANK {self.local}, {torch.cuda.device_count()} GPUs"
            fix = "start at most one process for each GPU (torchrun --nproc-per-node), or use the CPU"
            raise UsageError("more processes on this machine than it has GPUs", got=got, fix=fix)
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def seed(self, seed: int, step: int = 0) -> int:
        """The run's own seed on the first rank. On each other rank, a seed derived from it, the rank and the step."""
        if self.first:
            return seed
        return int(np.random.SeedSequence([seed, self.rank, step]).generate_state(1)[0])

    # Methods that use the key-value store

    def broadcast(self, make: Callable[[], Any]) -> Any:
        """Call `make` on the first rank, and return its JSON value on every rank."""
        self.broadcasts += 1
        key = f"broadcast/{self.broadcasts}"
        if self.first:
            value = make()
            self.store.set(key, json.dumps(value))
            return value
        self._wait_for(key)
        return json.loads(self.store.get(key))

    def _wait_for(self, *keys: str) -> None:
        """Wait until all keys are set. Raises `RankFailedError` if another rank fails or ends before."""
        try:
            while not self.store.check(list(keys)):
                if self.store.check(["failed"]):
                    raise RankFailedError("another process of this run has failed")
                time.sleep(_POLL)
        except RuntimeError as error:  # the process that holds the store has ended
            raise RankFailedError("the first process of this run has ended") from error

    def reports_error(self) -> bool:
        """Whether this rank reports its error, because it is the first one that failed."""
        try:
            return int(self.store.compare_set("failed", "", str(self.rank))) == self.rank
        except RuntimeError:  # the process that holds the store has ended
            return self.first

    # Methods that use the process group

    @contextmanager
    def initialised(self, device: torch.device) -> Iterator[None]:
        """Initialise the group, and destroy it at the end. Raises `RankFailedError` if another rank has ended."""
        import torch.distributed as dist

        self.store.set(f"ready/{self.rank}", "")
        self._wait_for(*(f"ready/{rank}" for rank in range(self.size)))  # torch would wait for a failed rank for long

        # DistributedDataParallel imports this module, whose default arguments keep the group that exists at this time.
        # The group's threads would then outlive the group, and a process that ends while they run may abort.
        import_module("torch.distributed.nn.functional")

        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.size)
            yield
        except RuntimeError as error:
            # gloo does not have an error class of its own
            if not isinstance(error, dist.DistError) and "gloo/transport" not in str(error):
                raise
            fix = "read the output of torchrun; the run can be resumed"
            raise RankFailedError(
                "another process of this run has ended", got=str(error).splitlines()[0], fix=fix
            ) from error
        dist.destroy_process_group()

    def parallel(self, model: Model) -> nn.Module:
        """The model in a DistributedDataParallel, which averages gradients over the ranks."""
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(_Spare(model), find_unused_parameters=True)

    def any(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is true on any rank."""
        import torch.distributed as dist

        values = torch.tensor(flags, dtype=torch.uint8)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return values.bool().tolist()

    def all_reduce(self, values: list[float]) -> list[float]:
        """The sum of each value over all ranks, in float64."""
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64)  # float64 holds counts up to 2^53 exactly
        dist.all_reduce(total)
        return total.tolist()

    def all_reduce_metrics(self, sums: MetricSums) -> MetricSums:
        """The totals of tokens, correct tokens and nats over all ranks. The scores of single rows are dropped."""
        columns = sums.columns()
        totals = self.all_reduce([float(columns[name].sum()) for name in ("tokens", "correct", "nats")])
        tokens, correct, nats = (np.array([total]) for total in totals)
        return replace(MetricSums(), tokens=[tokens], correct=[correct], nats=[nats])

    def gather(self, tensors: Tensors) -> Tensors:
        """On the first rank, the tensors of all ranks, by the names of `of_rank`. On other ranks, nothing."""
        import torch.distributed as dist

        parts: list[Any] | None = [None] * self.size if self.first else None
        dist.gather_object(tensors, parts)
        return {of_rank(name, rank): value for rank, part in enumerate(parts or ()) for name, value in part.items()}

    def broadcast_state(self, stored: Stored | None) -> Stored | None:
        """The checkpoint of the first rank, on every rank. The arguments of other ranks are not read."""
        import torch.distributed as dist

        objects = [stored]
        dist.broadcast_object_list(objects)
        return objects[0]


class _Spare(nn.Module):
    """A model with one additional parameter that it does not use.

    Which parameters a batch uses changes from batch to batch: trees of one node use no generator of a tree. So
    DistributedDataParallel has to search for unused parameters at each batch. It warns once if it finds none, and the
    additional parameter prevents this warning.
    """

    def __init__(self, model: nn.Module) -> None:
        """Add the parameter, a scalar with the dtype and the device of the model's parameters."""
        super().__init__()
        self.model, self.spare = model, nn.Parameter(next(model.parameters()).new_zeros(()))

    def forward(self, *inputs: Any) -> Tensor:
        """The result of the model."""
        scores: Tensor = self.model(*inputs)
        return scores


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
def process_group() -> Iterator[ProcessGroup]:
    """The process group that torchrun's variables describe, or the group of a single process without them.

    If the block raises errors, only the first rank that fails raises its error. The other ranks exit with the exit
    codes of their errors. Raises `UsageError` if the variables are wrong, or if a process does not start.
    """
    if not is_launched():
        yield SINGLE_PROCESS
        return
    import torch.distributed as dist

    group = _from_environment()
    try:
        with nullcontext() if group.first else messages_to(lambda message: None):  # the first rank logs them
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
    """The group of torchrun's variables. Raises `UsageError` if they are wrong, or if a process does not start."""
    from torch.distributed.rendezvous import rendezvous

    try:
        local = int(os.environ["LOCAL_RANK"])
        store, rank, size = next(rendezvous("env://", timeout=_PATIENCE))
    except (ValueError, RuntimeError) as error:
        fix = "start the command with torchrun, which sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or unset RANK"
        got = str(error).splitlines()[0]
        raise UsageError("the processes of this run cannot find each other", got=got, fix=fix) from error
    return DistributedGroup(rank, size, local, store)
