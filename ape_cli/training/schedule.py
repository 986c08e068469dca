"""The schedule of a run: the number of steps, the steps between validations, and the learning rate of each step.

Source: the paper, section 4.2 and appendix B. The learning rate rises linearly from 1e-7 to its peak over the first 5%
of the steps, and then falls along a cosine to 1e-9 over the other 95%.
"""

from __future__ import annotations

import math

from ape_cli.core.errors import UsageError
from ape_cli.data.loader import ImageSplit, Split
from ape_cli.runs.config import Config

_MOST_VALIDATIONS = 20_000  # of a run: the header of its stored state has a row for each


def learning_rate(step: int, steps: int, config: Config) -> float:
    """The learning rate of optimiser step `step` = 0 .. steps-1: linear to the peak, then a cosine to the end."""
    warm = math.ceil(config.warmup * steps)
    if step < warm:
        return config.lr_initial + (config.lr_peak - config.lr_initial) * step / warm
    done = (step - warm) / max(1, steps - 1 - warm)
    return config.lr_final + (config.lr_peak - config.lr_final) * 0.5 * (1 + math.cos(math.pi * done))


def total_steps(config: Config, train: Split | ImageSplit) -> tuple[int, int]:
    """The number of steps of the whole run, and the number of steps between two validations.

    Raises `UsageError` if there would be more validations than the stored state can hold.
    """
    per_epoch = train.steps(config.batch_size)
    every = config.validate_every_steps or (config.validate_every_epochs or 1) * per_epoch
    steps = steps_of(config, per_epoch)
    validations = -(-steps // every)  # the last step is validated too
    if validations > _MOST_VALIDATIONS:
        fix = f"--set validate_every_steps={-(-steps // _MOST_VALIDATIONS)}, or more"
        raise UsageError("too many validations", got=f"{validations:,}", allowed=f"{_MOST_VALIDATIONS:,}", fix=fix)
    return steps, every


def steps_of(config: Config, per_epoch: int) -> int:
    """The number of steps of the whole run. `per_epoch`: the steps of one epoch."""
    return config.steps or (config.epochs or 1) * per_epoch
