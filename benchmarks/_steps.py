"""Training steps to measure: a preset's model with a scheme, on batches of a task that the scheme reads."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from ape_cli import batch as batches
from ape_cli import build, config, position, structure, tasks
from ape_cli.batch import Batch, Reading, Window
from ape_cli.dataset import flatten
from ape_cli.model import Transformer, loss

_TASK = {"seq": "reverse", "tree(2)": "tree-rotate", "grid(2)": "grid-rotate"}


@dataclass(frozen=True)
class Shape:
    """A preset at a batch size: its model, its sizes of words, trees and grids."""

    preset: str
    batch_size: int
    batches: int = 1  # that are measured in turn

    @property
    def name(self) -> str:
        return f"{self.preset}, d={config.preset(self.preset).fields['d_model']}, batch {self.batch_size}"


SHAPES = [Shape("small", 64, batches=3), Shape("paper", 16), Shape("paper", 64)]


def own_structure(scheme: str) -> str:
    """What a scheme is measured on: a product where it reads everything, so that it is not measured twice."""
    first = position.load(scheme).structures[0]
    return "seq*tree(2)" if first == "any" else structure.example(first).expression


def task_of(expression: str) -> str:
    return _TASK[next(s for s in reversed(expression.split("*")))]


def window(task: str, preset: str, rows: int, seed: int = 1) -> tuple[Window, structure.Structure, int]:
    """Rows of a task at a preset's sizes, their structure, and the size of the vocabulary."""
    sizes = config.preset(preset).sizes
    made = tasks.make(task)
    made = tasks.make(task, **{k: v for k, v in sizes.items() if k in made.options})
    table = made.sample(rows=range(rows), split="train", seed=seed)
    return flatten(table.combine_chunks()), structure.parse(made.structure), len(made.id_names)


def batches_of(task: str, shape: Shape, expression: str) -> list[Batch]:
    """Batches of like lengths, as training sees them, positions read as `expression`."""
    found, own, _ = window(task, shape.preset, shape.batch_size * 16)
    longest = np.argsort(np.maximum(found.source.length, found.target.length), kind="stable")
    chosen = np.linspace(0, 15, shape.batches + 2).round().astype(int)[1:-1]  # neither the shortest nor the longest
    reading = Reading.of(own, expression)
    size = shape.batch_size
    return [batches.collate(found, longest[i * size : (i + 1) * size], reading) for i in chosen]


class Step:
    """Forward, backward and optimiser on each of some batches, over and over; weights of seed 42."""

    def __init__(
        self, scheme: str, shape: Shape, *, task: str, expression: str, decay: float, device: str = "cpu"
    ) -> None:
        self.shape, self.device = shape, torch.device(device)
        ids = window(task, shape.preset, 1)[2]
        settled = config.resolve(
            shape.preset, scheme, position.options(scheme), structure=expression, settings={"decay": decay}
        )
        found = position.load(scheme)
        if found.bounded:
            mean = tasks.make(task).mean_size if expression != "seq" else tasks.make(task).mean_tokens
            settled = settled.model_copy(update={"max_size": round(mean)})
        own = tasks.make(task).structure
        torch.manual_seed(1)
        self.model: Transformer = build.build(settled, own, ids).to(self.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.batches = [b.to(self.device) for b in batches_of(task, shape, expression)]
        self.done = 0

    def __call__(self, batch: Batch | None = None) -> None:
        """One step, on the next of the batches in turn."""
        if batch is None:
            batch = self.batches[self.done % len(self.batches)]
            self.done += 1
        scores = self.model(
            batch.source_ids, batch.source_positions, batch.source_mask, batch.input_ids, batch.input_positions
        )
        value = loss(scores, batch.labels) / batch.labels.numel()
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        self.optimiser.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self) -> float:
        """Of a step on each batch."""
        start = time.perf_counter()
        for _ in self.batches:
            self()
        return time.perf_counter() - start
