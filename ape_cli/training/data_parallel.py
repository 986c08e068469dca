"""Ranks: processes that train one run together, each on its share of every batch.

Started by torchrun, which says in RANK, WORLD_SIZE and LOCAL_RANK who is who; `World` is what a process
without them has, one that is alone. All ranks make the same batches and hold the same weights. Each works off its own
rows; gradients are summed by torch's DistributedDataParallel (gloo on CPUs, nccl on CUDA), so a run is the same
run with any number of ranks, up to rounding and the masks of dropout, which each rank draws from a stream of its own.

Rank 0 is the first: it alone makes datasets, reads and writes results, and is heard. What it decides is
told through torchrun's key-value store, where it may be waited for without end, and where the rank that fails
first leaves word, so that only it gives its reason.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.core.messages import messages_to
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.evaluation.metrics import MetricSums
from ape_cli.models.checkpoint import Tensors, of_rank
from ape_cli.models.transformer import Model
from ape_cli.training.process_group import SINGLE_PROCESS, Gone, ProcessGroup, Stored

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_POLL = 0.05  # seconds


class DistributedGroup(ProcessGroup):
    """One of several processes."""

    def __init__(self, rank: int, size: int, local: int, store: Store) -> None:
        """`local`: among the ranks of this machine."""
        self.rank, self.size, self.local, self.store = rank, size, local, store
        self.share, self.told = (rank, size), 0

    def device(self, wanted: torch.device) -> torch.device:
        if wanted.type != "cuda":
            return wanted
        if self.local >= torch.cuda.device_count():
            raise UsageError(
                "more processes on this machine than it has GPUs",
                got=f"LOCAL_RANK {self.local}",
                allowed=f"{torch.cuda.device_count()} processes",
                fix="torchrun --nproc-per-node with as many, or --device cpu",
            )
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def seed(self, seed: int, step: int = 0) -> int:
        if self.first:
            return seed
        return int(np.random.SeedSequence([seed, self.rank, step]).generate_state(1)[0])

    # Through the store

    def tell(self, make: Callable[[], Any]) -> Any:
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

    def dataset(self, find: Callable[[], Dataset]) -> Dataset:
        found: list[Dataset] = []

        def folder() -> str:
            found.append(find())
            return str(found[0].folder)

        there = self.tell(folder)
        return found[0] if self.first else open_dataset(there)

    def speaks(self) -> bool:
        """Whether this rank is the first one to fail, which gives its reason."""
        try:
            return int(self.store.compare_set("failed", "", str(self.rank))) == self.rank
        except RuntimeError:  # the store has ended with its process
            return self.first

    # Through the group

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        import torch.distributed as dist

        # DistributedDataParallel imports this, and its default arguments keep the group that there is at that moment.
        # The group's threads would then outlive it, and a process that ends while they run may abort.
        import_module("torch.distributed.nn.functional")

        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        try:
            dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.size)
            yield
        except RuntimeError as error:
            # gloo has no kind of error of its own
            if not isinstance(error, dist.DistError) and "gloo/transport" not in str(error):
                raise
            raise Gone(
                "another process of this run has ended",
                got=str(error).splitlines()[0],
                fix="see what torchrun says of it; the same command with --resume goes on",
            ) from error
        dist.destroy_process_group()

    def parallel(self, model: Model) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(_Spare(model), find_unused_parameters=True)

    def any(self, *asked: bool) -> list[bool]:
        import torch.distributed as dist

        flags = torch.tensor(asked, dtype=torch.uint8)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return flags.bool().tolist()

    def sum(self, values: list[float]) -> list[float]:
        import torch.distributed as dist

        total = torch.tensor(values, dtype=torch.float64)  # counts are exact in it up to 2^53
        dist.all_reduce(total)
        return total.tolist()

    def pooled(self, tally: MetricSums) -> MetricSums:
        columns = tally.columns()
        sums = self.sum([float(columns[name].sum()) for name in ("tokens", "correct", "nats")])
        tokens, correct, nats = (np.array([total]) for total in sums)
        return replace(MetricSums(), tokens=[tokens], correct=[correct], nats=[nats])

    def gathered(self, own: Tensors) -> Tensors:
        import torch.distributed as dist

        found: Tensors = {}
        for name, tensor in own.items():
            parts = [torch.empty_like(tensor) for _ in range(self.size)] if self.first else None
            dist.gather(tensor, parts)
            found |= {of_rank(name, rank): part for rank, part in enumerate(parts or ())}
        return found

    def loaded(self, stored: Stored | None) -> Stored | None:
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
    """A model and one parameter that it does not use.

    Which parameters a batch does not reach changes from batch to batch (no generator of a tree at trees of one node),
    so it has to be found out at each; DistributedDataParallel warns, once, where it has found none.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.spare = model, nn.Parameter(next(model.parameters()).new_zeros(()))

    def forward(self, *inputs: Any) -> Tensor:
        found: Tensor = self.model(*inputs)
        return found


@contextmanager
def joined() -> Iterator[ProcessGroup]:
    """The world that torchrun's variables tell of. Of errors within, one rank's is raised; the others exit."""
    if any(name not in os.environ for name in _VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        yield SINGLE_PROCESS
        return
    import torch.distributed as dist

    group = _from_environment()
    try:
        with nullcontext() if group.first else messages_to(_ignore):
            yield group
        if dist.is_initialized():  # a run that was stopped
            group.any(True)  # none leaves before the first has stored it: torchrun would end that one too
            dist.destroy_process_group()
    except BaseException as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun's, once another rank has ended: this one is about to
        speaks = group.speaks()
        _free_group(error)
        if speaks:
            raise
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else getattr(error, "exit_code", 1)) from None


def _ignore(message: str) -> None:
    """Drop a message: the first rank gives it."""


def _free_group(error: BaseException) -> None:
    """Free the process group after an error, whose traceback still holds the model and with it the group.

    A process that ends while the group's threads run may abort, with a signal in place of its exit code.
    """
    import torch.distributed as dist

    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
    if dist.is_initialized():
        dist.destroy_process_group()


def _from_environment() -> DistributedGroup:
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    try:
        rank, size, local = (int(os.environ[name]) for name in _VARIABLES)
        store, _, _ = next(rendezvous("env://"))
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            "RANK, WORLD_SIZE and LOCAL_RANK are set, and the processes do not find each other",
            got=str(error).splitlines()[0],
            allowed="what torchrun sets, MASTER_ADDR and MASTER_PORT among it",
            fix="start it with torchrun, or unset RANK",
        ) from error
    return DistributedGroup(rank, size, local, PrefixStore("ape", store))
