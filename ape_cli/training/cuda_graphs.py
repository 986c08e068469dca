"""Training steps on a GPU as CUDA graphs: recorded once for each shape of batch, and replayed for all others.

A step of this size takes a GPU less time than it takes Python to ask for it. A batch of a shape that was not seen
before is trained on as usual; the next one of its shape is recorded; from then on a step is one launch. The recorded
operations are those of the usual step, with the same seeds of dropout, so a run comes to the same either way, up to
what a GPU leaves open.

What changes from batch to batch is copied into tensors that stay where they are. Recorded steps share one pool of
memory: nothing in it outlives a step but weights and moments, which lie elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ape_cli.data.collation import Labelled

Step = Callable[[Labelled, Tensor], tuple[Tensor, Tensor]]  # a batch and its number of labels -> nats, correct labels

MOST = 256  # recorded steps; batches of further shapes are trained on as usual


class Replay:
    """A step, given batches that may still be on the host."""

    def __init__(self, step: Step, device: torch.device, records: bool) -> None:
        """`records`: False for a model whose operations depend on values."""
        self.step, self.device, self.records = step, device, records
        self.seen: set[Any] = set()
        self.recorded: dict[Any, _Recorded] = {}
        self.pool: Any = None
        self.labels = torch.zeros((), device=device)

    def __call__(self, batch: Labelled, labels: int) -> tuple[Tensor, Tensor]:
        """-> nats and correct labels, on the device."""
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
    def __init__(self, batch: Labelled, labels: Tensor, step: Step, pool: Any) -> None:
        self.there = list(batch.tensors())
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream().synchronize()
        # batches are made, and memory for them pinned, in another thread meanwhile
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.found = step(batch, labels)

    def __call__(self, batch: Labelled) -> tuple[Tensor, Tensor]:
        for there, here in zip(self.there, batch.tensors(), strict=True):
            there.copy_(here, non_blocking=True)
        self.graph.replay()
        nats, correct = self.found
        return nats.clone(), correct.clone()  # the next replay writes over them
