"""Training steps to measure: the model of a preset with a scheme, on batches of a task that the scheme can read."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from ape_cli import position, tasks
from ape_cli.data import collation
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.collation import PositionReading, Window
from ape_cli.data.loader import Dataset, Split
from ape_cli.experiment import ExperimentSpec
from ape_cli.models import factory
from ape_cli.models.transformer import SequenceModel, loss
from ape_cli.runs import config
from ape_cli.structure import example, parse_structure
from ape_cli.tasks import BaseTask

_TASK = {"seq": "reverse", "tree(2)": "tree-rotate", "grid(2)": "grid-rotate"}


def sequences(data: Dataset, name: str) -> Split:
    """A split of a dataset of sequences, not of images."""
    split = data.split(name)
    assert isinstance(split, Split)
    return split


@dataclass(frozen=True)
class Shape:
    """A preset at a batch size. The preset defines the model and the sizes of words, trees and grids."""

    preset: str
    batch_size: int
    batches: int = 1  # number of batches that are measured in turn

    @property
    def name(self) -> str:
        """Preset, width and batch size."""
        return f"{self.preset}, d={config.preset(self.preset).sequence['d_model']}, batch {self.batch_size}"


SHAPES = [Shape("small", 64, batches=3), Shape("paper", 16), Shape("paper", 64)]


def own_structure(scheme: str) -> str:
    """The structure on which a scheme is measured. A scheme for any structure is measured on a product."""
    first = position.load(scheme).structures[0]
    return "seq*tree(2)" if first == "any" else example(first).expression


def task_of(expression: str) -> str:
    """The task whose data have the positions of an expression."""
    return _TASK[expression.rsplit("*", maxsplit=1)[-1]]


def sized(task: str, preset: str) -> BaseTask:
    """A task with the sizes of a preset."""
    sizes, options = config.preset(preset).sizes, tasks.make(task).options
    return tasks.make(task, **{k: v for k, v in sizes.items() if k in options})


def models_of(scheme: str) -> list[str]:
    """The models in which a scheme acts."""
    return [model for model in config.MODELS if not position.load(scheme).obstacle(model)]


def batches_of(task: str, shape: Shape, expression: str, model: str = "encoder-decoder") -> list[SequenceBatch]:
    """Batches of rows of similar lengths, as in training. Their positions are read as `expression`."""
    made = sized(task, shape.preset)
    window = Window.of(made.sample(rows=range(shape.batch_size * 16), split="train", seed=1).combine_chunks())
    longest = np.argsort(np.maximum(window.source.length, window.target.length), kind="stable")
    chosen = (
        np.linspace(0, 15, shape.batches + 2).round().astype(int)[1:-1]
    )  # neither the shortest nor the longest rows
    reading = PositionReading.of(
        parse_structure(made.structure), parse_structure(expression), decoder_only=model == "decoder"
    )
    size = shape.batch_size
    return [collation.collate(window, longest[i * size : (i + 1) * size], reading) for i in chosen]


class Step:
    """A training step (forward, backward and optimiser) on a few batches in turn. The weights are those of seed 42.

    Arguments: `task`, whose data are read; `expression`, the structure as which positions are read; `decay`, of the
    locality bias, 1 for none; `dropout`, its probability, None for that of the preset; `model`, one of `config.MODELS`.
    """

    def __init__(
        self,
        scheme: str,
        shape: Shape,
        *,
        task: str,
        expression: str,
        decay: float,
        device: str = "cpu",
        dropout: float | None = None,
        model: str = "encoder-decoder",
    ) -> None:
        """Build the model, the optimiser and the batches."""
        self.shape, self.device = shape, torch.device(device)
        made = sized(task, shape.preset)
        settings = {"decay": decay} | ({} if dropout is None else {"dropout": dropout})
        settled = ExperimentSpec(
            preset=shape.preset, scheme=scheme, structure=expression, model=model, set=settings
        ).config("sequence")
        batches = batches_of(task, shape, expression, model)
        if position.load(scheme).bounded:
            read = parse_structure(expression)
            largest = max(read.extent(at) for b in batches for at in b.places)
            settled = settled.model_copy(update={"max_size": largest})
        torch.manual_seed(1)
        built = factory.build(settled, parse_structure(made.structure), len(made.id_names))
        self.model: SequenceModel = built.to(self.device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.batches = [b.to(self.device) for b in batches]
        self.done = 0

    def __call__(self, batch: SequenceBatch | None = None) -> None:
        """Take one step, on `batch` or on the next of the batches in turn."""
        if batch is None:
            batch = self.batches[self.done % len(self.batches)]
            self.done += 1
        scores = self.model(*batch.inputs)
        value = loss(scores, batch.labels) / batch.labels.numel()
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        self.optimiser.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self) -> float:
        """Take a step on each batch. -> seconds in total"""
        start = time.perf_counter()
        for _ in self.batches:
            self()
        return time.perf_counter() - start
