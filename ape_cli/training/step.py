"""One optimiser step: forward pass, backward pass and update on one batch; and the sums of what steps return.

Each rank of a process group computes its share of the batch. It divides its summed loss by the number of labels in the
global batch, so that the sum of the gradients over the ranks is that of a single process, up to rounding.

On a GPU a step is recorded as a CUDA graph, once for each shape of batch, and then replayed, because the GPU computes a
step of this size faster than Python can launch its kernels. The first batch of a shape is trained on without a graph,
and the second one is recorded. From then on a step of this shape is a single launch. The recorded operations are those
of the usual step, with the same seeds for dropout. A run therefore gives the same result with and without graphs,
except where GPU operations are not deterministic. A replay reads fixed input tensors, and each batch is copied into
them. All recorded steps share one memory pool. This is safe because no tensor of the pool is used after its step:
weights and moments have memory of their own.

`Meter` has two sets of sums: one since the last validation, and one since the recent metrics were last logged.

Shapes: B rows, Q labels, V ids.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ape_cli.core.errors import RunError
from ape_cli.data.batches import Batch
from ape_cli.data.position_maps import PLAIN
from ape_cli.models.checkpoint import RecentSums, TrainState
from ape_cli.models.factory import own_parts
from ape_cli.models.transformer import forward, loss
from ape_cli.training.setup import Setup, learning_rate

Step = Callable[[Batch, Tensor], tuple[Tensor, Tensor]]  # batch, number of labels -> nats, correct labels

MOST = 256  # the number of recorded steps; batches of further shapes are trained on without a graph


class TrainingStep:
    """The training step of a run. On a GPU it is recorded as CUDA graphs (`Replay`).

    setup: the run, with the weights that training starts or resumes from.
    """

    def __init__(self, setup: Setup) -> None:
        """Wrap the model for the process group, and decide whether steps are recorded."""
        self.setup, self.rate = setup, setup.config.lr_initial
        execution = setup.execution
        self.parallel = execution.group.parallel(setup.model)
        # the steps of several processes wait for one another, so they are not recorded
        waits = setup.model.scheme.waits_for_positions and setup.config.positions != PLAIN
        records = execution.group.size == 1 and not execution.compiled and not waits
        self.replay = Replay(self.update, execution.device, records) if setup.on_gpu else None

    def __call__(self, step: int, batch: Batch) -> tuple[Tensor, Tensor]:
        """Train on one batch with the learning rate of `step`, which counts from 0. It does not wait for the device.

        Returns two scalars on the device: the summed loss in nats (floating point) and the number of correct labels
        (int64). Both are over the rows of this rank.
        """
        self.rate = learning_rate(step, self.setup.schedule, self.setup.config)
        for group in self.setup.optimiser.param_groups:
            if self.setup.on_gpu:
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate
        labels, _ = batch.counts
        return self.replay(batch, labels) if self.replay else self.update(batch, labels)

    def update(self, there: Batch, labels: int | Tensor) -> tuple[Tensor, Tensor]:
        """Train on a batch that is on the device, with the current learning rate. Returns the same as `__call__`.

        `labels`: the number of labels in the global batch, a scalar of shape [] on the device if the step is on a GPU.
        """
        config, optimiser = self.setup.config, self.setup.optimiser
        scores = forward(self.setup.model, there, config.precision, self.parallel)  # [B, Q, V]
        total = loss(scores, there.labels, there.ignore_index, config.label_smoothing)
        optimiser.zero_grad(set_to_none=True)
        # the factor is the group size, because gradients are averaged over ranks
        (total / labels * self.setup.execution.group.size).backward()
        optimiser.step()
        correct = ((scores.detach().argmax(-1) == there.labels) & there.label_mask).sum()
        return total.detach(), correct


class Replay:
    """A training step that records and replays CUDA graphs. Its batches may still be on the host.

    step: the step for a batch on the device, with its number of labels as a scalar on the device. device: the GPU.
    records: whether to record; False for a model whose operations depend on values.
    """

    def __init__(self, step: Step, device: torch.device, records: bool) -> None:
        """Start without any recorded step."""
        self.step, self.device, self.records = step, device, records
        self.seen: set[Any] = set()
        self.recorded: dict[Any, _Recorded] = {}
        self.pool: Any = None
        self.labels = torch.zeros((), device=device)

    def __call__(self, batch: Batch, labels: int) -> tuple[Tensor, Tensor]:
        """Train on one batch, which has `labels` labels.

        Returns two scalars on the device: the summed loss in nats and the number of correct labels.
        """
        self.labels.fill_(labels)
        key = batch.key
        if key in self.recorded:
            return self.recorded[key](batch)
        if key not in self.seen or not self.records or len(self.recorded) >= MOST:
            self.seen.add(key)
            return self.step(batch.to(self.device), self.labels)
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        self.recorded[key] = _Recorded(batch.to(self.device), self.labels, self.step, self.pool)
        return self.recorded[key](batch)


class _Recorded:
    """One recorded step. The tensors of `batch` become its fixed inputs."""

    def __init__(self, batch: Batch, labels: Tensor, step: Step, pool: Any) -> None:
        self.inputs = list(batch.tensors())
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream().synchronize()
        # "thread_local": another thread makes batches and pins memory for them during the recording
        with _no_collection(), torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.results = step(batch, labels)

    def __call__(self, batch: Batch) -> tuple[Tensor, Tensor]:
        for fixed, tensor in zip(self.inputs, batch.tensors(), strict=True):
            fixed.copy_(tensor, non_blocking=True)
        self.graph.replay()
        nats, correct = self.results
        return nats.clone(), correct.clone()  # the next replay overwrites them


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend garbage collection, which could destroy the graphs of an earlier run and so invalidate a recording."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class DivergenceError(RunError):
    """A loss or a weight is not finite. The same run would diverge again."""


def diverged(step: int, setup: Setup) -> DivergenceError:
    """The error for a loss or a weight that is not finite, found at `step`.

    What the first step computes does not depend on the learning rate. Its gradient shows in the loss of the second.
    """
    config, fix = setup.config, "use a smaller `lr_peak` or `weight_decay`, or `precision=fp32`"
    if step <= 2 and (own := own_parts(config.scheme, config.attention, config.positions)):
        fix = f"find what is not finite in the values or gradients of {' or '.join(own)}, and correct it"
    got = f"step {step} of {setup.schedule.steps}"
    return DivergenceError("the loss is no longer a number", got=got, fix=fix)


class Meter:
    """Adds up the results and the time of the steps over all ranks. It waits for the device only in `read`.

    at: the progress of the run, to which sums are added. setup: the run.
    """

    def __init__(self, at: TrainState, setup: Setup) -> None:
        """Start the clock."""
        self.at, self.setup, self.group = at, setup, setup.execution.group
        self.unread: list[tuple[Tensor, Tensor]] = []  # nats and correct labels of each step, scalars on the device
        self.since = time.perf_counter()

    def add(self, nats: Tensor, correct: Tensor, labels: int, sources: int) -> None:
        """Add one step.

        nats, correct: scalars, shape [], on the device: the summed loss and the number of correct labels over the rows
        of this rank. labels, sources: the numbers of labels and of source tokens of the global batch.
        """
        self.at.step += 1
        self.unread.append((nats, correct))
        for sums in (self.at, self.at.recent):
            sums.labels, sums.tokens = sums.labels + labels, sums.tokens + labels + sources

    def read(self) -> None:
        """Add the results of the steps since the last call, and their time.

        Raises `RunError` if the loss of a step is not finite.
        """
        if not self.unread:
            return
        nats, correct = (
            self.group.all_reduce(torch.stack(values).tolist()) for values in zip(*self.unread, strict=True)
        )
        first = self.at.step - len(self.unread) + 1
        self.unread = []
        for step, lost in enumerate(nats, first):
            if not math.isfinite(lost):
                raise diverged(step, self.setup)
        seconds = self.clock()
        for sums in (self.at, self.at.recent):
            sums.training_seconds += seconds
            for lost, right in zip(nats, correct, strict=True):
                sums.nats, sums.correct = sums.nats + lost, sums.correct + int(right)

    def clock(self) -> float:
        """Add the seconds since the last call, or since the start, to the time of the run, and return them."""
        now = time.perf_counter()
        seconds, self.since = now - self.since, now
        self.at.seconds += seconds
        return seconds

    def resume(self) -> None:
        """Continue to train. The time since the steps were read, if they all are, was not spent on training."""
        if not self.unread:
            self.clock()

    def recent(self) -> dict[str, float]:
        """The metrics of the steps since the last call, as described in `loggers/__init__.py`.

        Raises `RunError` if the loss of a step is not finite.
        """
        self.read()
        sums, self.at.recent = self.at.recent, RecentSums()
        labels = max(1, sums.labels)
        return {
            "recent_loss": sums.nats / labels,
            "recent_token_accuracy": sums.correct / labels,
            "tokens_per_second": sums.tokens / max(1e-9, sums.training_seconds),
        }
