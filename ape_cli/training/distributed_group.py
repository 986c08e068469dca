"""The process group of several processes, with torch.distributed and torchrun's key-value store.

torch's DistributedDataParallel reduces the gradients (gloo on CPUs, nccl on CUDA). The first rank passes its decisions
to the other ranks through the key-value store, where a rank can wait without a time limit. The first rank that fails
sets a key there, so that only this rank reports its error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli import experiment
from ape_cli.core.errors import UsageError
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Tensors, of_rank
from ape_cli.models.transformer import Model
from ape_cli.runs.config import read_config
from ape_cli.training.process_group import Gone, ProcessGroup, Stored

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_POLL = 0.05  # seconds


class DistributedGroup(ProcessGroup):
    """The group of several processes.

    rank: among all `size` processes. local: the rank among the processes of this machine. store: torchrun's key-value
    store.
    """

    def __init__(self, rank: int, size: int, local: int, store: Store) -> None:
        """Keep the ranks and the store. `together` initialises the process group."""
        self.rank, self.size, self.local, self.store = rank, size, local, store
        self.share, self.told = (rank, size), 0

    def device(self, wanted: torch.device) -> torch.device:
        """The GPU of this rank, or `wanted` if that is no GPU. Raises `UsageError` if there are too few GPUs."""
        if wanted.type != "cuda":
            return wanted
        if self.local >= torch.cuda.device_count():
            raise UsageError(
                "more processes on this machine than it has GPUs",
                got=f"LOCAL_RANK {self.local}",
                allowed=f"{torch.cuda.device_count()} processes",
                fix="start at most one process for each GPU (torchrun --nproc-per-node), or use --device cpu",
            )
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def seed(self, seed: int, step: int = 0) -> int:
        """The run's own seed on the first rank. On each other rank, a seed derived from it, the rank and the step."""
        if self.first:
            return seed
        return int(np.random.SeedSequence([seed, self.rank, step]).generate_state(1)[0])

    # Methods that use the key-value store

    def tell(self, make: Callable[[], Any]) -> Any:
        """Call `make` on the first rank, and return its JSON value on every rank. Raises `Gone` if a rank failed."""
        self.told += 1
        key = f"told/{self.told}"
        if self.first:
            made = make()
            self.store.set(key, json.dumps(made))
            return made
        while not self.store.check([key]):
            if self.store.check(["failed"]):
                raise Gone("another process of this run has failed")
            time.sleep(_POLL)
        return json.loads(self.store.get(key))

    def experiment(self, prepare: Callable[[], Experiment]) -> Experiment:
        """Call `prepare` on the first rank. The other ranks take its configuration and open its dataset."""
        first: list[Experiment] = []

        def prepared() -> list[Any]:
            first.append(prepare())
            return [first[0].config.model_dump(mode="json"), str(first[0].dataset.folder)]

        fields, folder = self.tell(prepared)
        return first[0] if self.first else experiment.of(read_config(fields), open_dataset(folder))

    def speaks(self) -> bool:
        """Whether this rank reports its error, because it is the first one that failed."""
        try:
            return int(self.store.compare_set("failed", "", str(self.rank))) == self.rank
        except RuntimeError:  # the process that holds the store has ended
            return self.first

    # Methods that use the process group

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """Initialise the process group, and destroy it at the end. Raises `Gone` if another rank has ended."""
        import torch.distributed as dist

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
            raise Gone(
                "another process of this run has ended",
                got=str(error).splitlines()[0],
                fix="read the output of torchrun; the same command with --resume continues the run",
            ) from error
        dist.destroy_process_group()

    def parallel(self, model: Model) -> nn.Module:
        """The model in a DistributedDataParallel, which averages gradients over the ranks."""
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(_Spare(model), find_unused_parameters=True)

    def any(self, *asked: bool) -> list[bool]:
        """For each flag, whether it is true on any rank."""
        import torch.distributed as dist

        flags = torch.tensor(asked, dtype=torch.uint8)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return flags.bool().tolist()

    def sum(self, values: list[float]) -> list[float]:
        """The sum of each value over all ranks, in float64."""
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64)  # float64 holds counts up to 2^53 exactly
        dist.all_reduce(total)
        return total.tolist()

    def pooled(self, tally: MetricSums) -> MetricSums:
        """The totals of tokens, correct tokens and nats over all ranks. The scores of single rows are dropped."""
        columns = tally.columns()
        sums = self.sum([float(columns[name].sum()) for name in ("tokens", "correct", "nats")])
        tokens, correct, nats = (np.array([total]) for total in sums)
        return replace(MetricSums(), tokens=[tokens], correct=[correct], nats=[nats])

    def gathered(self, own: Tensors) -> Tensors:
        """On the first rank, the tensors of all ranks, by the names of `of_rank`. On other ranks, nothing."""
        import torch.distributed as dist

        found: Tensors = {}
        for name, tensor in own.items():
            parts = [torch.empty_like(tensor) for _ in range(self.size)] if self.first else None
            dist.gather(tensor, parts)
            found |= {of_rank(name, rank): part for rank, part in enumerate(parts or ())}
        return found

    def loaded(self, stored: Stored | None) -> Stored | None:
        """The checkpoint of the first rank, broadcast to every rank. The arguments of other ranks are not read."""
        import torch.distributed as dist

        def outline() -> Any:
            if stored is None:
                return None
            return [
                [name, str(t.dtype).removeprefix("torch."), list(t.shape)] for name, t in stored[0].items()
            ], stored[1]

        told = self.tell(outline)
        if told is None:
            return None
        tensors = stored[0] if stored else {n: torch.empty(shape, dtype=getattr(torch, d)) for n, d, shape in told[0]}
        for tensor in tensors.values():
            dist.broadcast(tensor.view(-1).view(torch.uint8), 0)
        return tensors, told[1]


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
        found: Tensor = self.model(*inputs)
        return found
