"""The setup of a run: its splits, model and optimiser, the order of its batches, and its schedule.

Source: the preprint (arXiv:2312.16045v1), section 4.2 and appendix B. The learning rate rises linearly from 1e-7 to
its peak over the first 5% of the steps, and then falls along a cosine to 1e-9 over the other 95%.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from ape_cli.core.errors import DataError, UsageError
from ape_cli.data.batches import Batch, few_lengths
from ape_cli.data.loader import BatchOptions, ImageSplit, Split
from ape_cli.experiment import Experiment
from ape_cli.models.checkpoint import Schedule, TrainState
from ape_cli.models.device import check_precision, tune
from ape_cli.models.factory import compile_around, of_experiment
from ape_cli.models.transformer import Model
from ape_cli.position import planner
from ape_cli.runs.config import Config
from ape_cli.training.execution import Execution

_MOST_VALIDATIONS = 20_000  # of a run: the header of its stored state has a row for each


@dataclass(frozen=True)
class Setup:
    """A run that is ready for its first step."""

    config: Config
    execution: Execution
    train: Split | ImageSplit
    validation: Split | ImageSplit
    test: Split | ImageSplit | None  # only for images; its accuracy is recorded and decides nothing
    training_options: BatchOptions
    scoring_options: BatchOptions
    schedule: Schedule
    model: Model
    optimiser: torch.optim.Optimizer

    @property
    def on_gpu(self) -> bool:
        """Whether the run trains on a GPU."""
        return self.execution.device.type == "cuda"

    @property
    def epochs(self) -> float:
        """The number of epochs of the whole run."""
        return self.config.epochs or self.schedule.steps / self.train.steps(self.config.batch_size, self.config.seed)

    def validates(self, at: TrainState) -> bool:
        """Whether the weights are scored at this progress of the run."""
        if at.step == self.schedule.steps:
            return True
        if self.schedule.validate_every:
            return at.step % self.schedule.validate_every == 0
        return at.batch == 0 and at.epoch % (self.config.validate_every_epochs or 1) == 0

    def batches(self, at: TrainState) -> Iterator[tuple[int, int, Batch]]:
        """An endless iterator over batches that starts at the progress of a run.

        Each item has the number of epochs that are complete after this batch, the number of batches done since, and
        the batch. The progress is read only at the start, because batches are made ahead of the training step.
        """
        config, done = self.config, at.batch
        for epoch in itertools.count(at.epoch):
            count = self.train.steps(config.batch_size, config.seed, epoch)
            made = self.train.batches(
                config.batch_size,
                config.seed,
                epoch=epoch,
                skip=done,
                share=self.execution.group.share,
                options=self.training_options,
            )
            for number, batch in enumerate(made, done + 1):
                ready = batch.planned(planner(self.model.scheme)).pinned() if self.on_gpu else batch
                yield epoch + number // count, number % count, ready
            done = 0


def set_up(experiment: Experiment, execution: Execution) -> Setup:
    """Build the model and the optimiser of a new run, and open its splits.

    Raises:
        DataError: A split is empty.
        UsageError: The precision or the compilation is not possible on the device.
    """
    config, data = experiment.config, experiment.dataset
    tune()
    check_precision(config.precision, execution.device)
    train, validation = data.split("train"), data.split("validation")
    for split in (train, validation):
        if not split.rows:
            raise DataError(f"the {split.name} split is empty", got=data.name, fix="generate rows for it")
    scoring, training = (experiment.batch_options(training=chosen) for chosen in (False, True))
    if execution.device.type == "cuda" and config.kind == "sequence":
        training = replace(training, padding=few_lengths)
    test = data.split("test") if config.kind == "image" and data.manifest.plan.rows["test"] else None
    planned = schedule(config, train)
    model = of_experiment(experiment).to(execution.device)
    if execution.compiled:
        compile_around(model)
    optimiser = _optimiser(config, model, execution.device)
    return Setup(config, execution, train, validation, test, training, scoring, planned, model, optimiser)


def _optimiser(config: Config, model: Model, device: torch.device) -> torch.optim.Optimizer:
    """AdamW. On a GPU the learning rate is a tensor, so that a recorded step reads its current value."""
    on_gpu = device.type == "cuda"
    return torch.optim.AdamW(
        model.parameters(),
        lr=torch.tensor(config.lr_initial, device=device) if on_gpu else config.lr_initial,
        betas=(config.beta1, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
        capturable=on_gpu,
    )


def learning_rate(step: int, planned: Schedule, config: Config) -> float:
    """The learning rate of optimiser step `step` = 0 .. steps-1: linear to the peak, then a cosine to the end."""
    if step < planned.warmup:
        return config.lr_initial + (config.lr_peak - config.lr_initial) * step / planned.warmup
    done = (step - planned.warmup) / max(1, planned.steps - 1 - planned.warmup)
    return config.lr_final + (config.lr_peak - config.lr_final) * 0.5 * (1 + math.cos(math.pi * done))


def schedule(config: Config, train: Split | ImageSplit) -> Schedule:
    """The schedule of a new run.

    Raises `UsageError` if there would be more validations than the stored state can hold.
    """
    equal = earlier_schedule(config, train)  # if all epochs have the same number of batches
    validations = -(-equal.steps // equal.validate_every)  # the last step is validated too
    if validations > _MOST_VALIDATIONS:
        fix = f"`validate_every_steps={-(-equal.steps // _MOST_VALIDATIONS)}`, or more"
        raise UsageError("too many validations", got=f"{validations:,}", allowed=f"{_MOST_VALIDATIONS:,}", fix=fix)
    steps = config.steps or train.steps(config.batch_size, config.seed, epochs=config.epochs or 1)
    warmup = math.ceil(Fraction(str(config.warmup)) * steps)  # a product of floats may be just above a whole number
    return Schedule(steps=steps, warmup=warmup, validate_every=config.validate_every_steps or 0)


def earlier_schedule(config: Config, train: Split | ImageSplit) -> Schedule:
    """The schedule of a run that version 0.2 or earlier has begun, whose state does not have it.

    All epochs count as many batches as the rows in the order of the files.
    """
    per_epoch = train.steps(config.batch_size)
    steps = steps_of(config, per_epoch)
    every = config.validate_every_steps or (config.validate_every_epochs or 1) * per_epoch
    return Schedule(steps=steps, warmup=math.ceil(config.warmup * steps), validate_every=every)


def steps_of(config: Config, per_epoch: int) -> int:
    """The number of steps of the whole run, if each epoch has `per_epoch` batches."""
    return config.steps or (config.epochs or 1) * per_epoch
