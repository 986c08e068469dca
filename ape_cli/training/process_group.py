"""The process group of a run: a single process, or several ones with torch.distributed and torchrun's key-value store.

Rank 0 is the first rank. Only the first rank makes datasets, reads and writes results, and logs messages.

torch's DistributedDataParallel reduces the gradients (gloo on CPUs, nccl on CUDA). The first rank passes its decisions
to the other ranks through the key-value store, where a rank can wait for another and still be interrupted. The first
rank that fails sets a key there, so that only this rank reports its error.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli.core.errors import RunError, UsageError
from ape_cli.data.batches import WHOLE, Share
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Tensors, of_rank
from ape_cli.models.transformer import Model
from ape_cli.runs.config import read_config

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_logger = logging.getLogger(__name__)

_POLL = 0.05  # seconds between two looks at the store
_PATIENCE = 300.0  # seconds until a rank no longer waits for another one that has not started
_SILENCE = 5.0  # seconds until it says that it waits

Stored = tuple[Tensors, dict[str, Any]]


class RankFailedError(RunError):
    """Another rank of the process group has failed or ended."""


class Wait:
    """The wait for another process. It is announced after `_SILENCE` seconds, and ends after `_PATIENCE` seconds."""

    def __init__(self) -> None:
        """Begin to wait."""
        self.begin, self.announced = time.monotonic(), False

    def a_moment(self, what: str, reason: str | None = None) -> None:
        """Wait for `what` a little longer. Raises `RankFailedError`, with the `reason`, if it has taken too long."""
        passed = time.monotonic() - self.begin
        if passed > _PATIENCE:
            fix = "start all processes of the run within this time, and look for errors in the output of each"
            raise RankFailedError(f"waited {_PATIENCE:.0f} seconds for {what}", got=reason, fix=fix)
        if passed > _SILENCE and not self.announced:
            _logger.info("waiting for %s, for at most %.0f seconds", what, _PATIENCE)
            self.announced = True
        time.sleep(_POLL)


def await_store(rank: int, host: str, port: int) -> None:
    """Wait until a process listens at the address of the store. torch's own wait cannot be interrupted.

    Raises `RankFailedError` if none does in time.
    """
    wait = Wait()
    while True:
        try:
            socket.create_connection((host, port), timeout=1.0).close()
        except OSError as error:
            wait.a_moment(
                f"rank 0 of this run at MASTER_ADDR:MASTER_PORT, {host}:{port}; this is rank {rank}", str(error)
            )
        else:
            return


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
        about = first and [first.config.model_dump(mode="json"), str(first.dataset.folder)]
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
        with self._losing_store():
            while not self.store.check([key]):
                self._check_others()
                time.sleep(_POLL)
            return json.loads(self.store.get(key))

    def meet(self, point: str) -> None:
        """Wait until all ranks are at this point. Raises `RankFailedError` if one fails or does not come in time."""
        with self._losing_store():
            self.store.set(f"{point}/{self.rank}", "")
            missing, wait = list(range(self.size)), Wait()
            while missing := [rank for rank in missing if not self.store.check([f"{point}/{rank}"])]:
                self._check_others()
                ranks = ", ".join(map(str, missing))
                wait.a_moment(f"rank {ranks} of the {self.size} processes of this run")

    def _check_others(self) -> None:
        """Raises `RankFailedError` if another rank has failed."""
        if self.store.check(["failed"]):
            raise RankFailedError("another process of this run has failed")

    @contextmanager
    def _losing_store(self) -> Iterator[None]:
        """Within this context, the loss of the store raises `RankFailedError`."""
        try:
            yield
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

        self.meet("group")  # torch's own wait for a rank that has failed takes half an hour

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
