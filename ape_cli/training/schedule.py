"""The schedule of a run: its number of steps, when it is validated, and the learning rate of each step.

Source: the preprint (arXiv:2312.16045v1), section 4.2 and appendix B. The learning rate rises linearly from 1e-7 to
its peak over the first 5% of the steps, and then falls along a cosine to 1e-9 over the other 95%.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ape_cli.core.errors import UsageError
from ape_cli.data.loader import ImageSplit, Split
from ape_cli.models.checkpoint import Progress, Schedule
from ape_cli.runs.config import Config

_MAXIMUM_VALIDATIONS = 20_000  # of a run: the header of its stored state has a row for each


def learning_rate(step: int, planned: Schedule, config: Config) -> float:
    """The learning rate of optimiser step `step` = 0 .. steps-1: linear to the peak, then a cosine to the end."""
    if step < planned.warmup:
        return config.lr_initial + (config.lr_peak - config.lr_initial) * step / planned.warmup
    done = (step - planned.warmup) / max(1, planned.steps - 1 - planned.warmup)
    return config.lr_final + (config.lr_peak - config.lr_final) * 0.5 * (1 + math.cos(math.pi * done))


def validates(progress: Progress, config: Config) -> bool:
    """Whether the weights are scored at this progress of a run."""
    planned = progress.schedule
    if progress.step == planned.steps:
        return True
    if planned.validate_every:
        return progress.step % planned.validate_every == 0
    return progress.batch == 0 and progress.epoch % (config.validate_every_epochs or 1) == 0


def schedule(config: Config, train: Split | ImageSplit) -> Schedule:
    """The schedule of a new run.

    Raises `UsageError` if there would be more validations than the stored state can hold.
    """
    equal = earlier_schedule(config, train)  # if all epochs have the same number of batches
    validations = -(-equal.steps // equal.validate_every)  # the last step is validated too
    if validations > (maximum := _MAXIMUM_VALIDATIONS):
        fix = f"`validate_every_steps={-(-equal.steps // maximum)}`, or more"
        raise UsageError("too many validations", got=f"{validations:,}", allowed=f"{maximum:,}", fix=fix)
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
