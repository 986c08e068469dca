"""Training steps that are recorded as CUDA graphs and replayed.

On a GPU a step is recorded as a CUDA graph, once for each shape of batch, and then replayed, because the GPU computes a
step of this size faster than Python can launch its kernels. The first batch of a shape is trained on without a graph,
and the second one is recorded. From then on a step of this shape is a single launch. The recorded operations are those
of the usual step, with the same seeds for dropout. A run therefore gives the same result with and without graphs,
except where GPU operations are not deterministic. A replay reads fixed input tensors, and each batch is copied into
them. All recorded steps share one memory pool. This is safe because no tensor of the pool is used after its step:
weights and moments have memory of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ape_cli.data.batches import Batch

Step = Callable[[Batch, Tensor], tuple[Tensor, Tensor]]  # batch, number of labels -> nats, correct labels

_MAXIMUM_RECORDED = 256  # steps; batches of further shapes are trained on without a graph


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
        if key not in self.seen or not self.records or len(self.recorded) >= _MAXIMUM_RECORDED:
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
