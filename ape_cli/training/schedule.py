"""The schedule of a run: how many steps, when it validates, and the learning rate of each step.

Paper, section 4.2 and appendix B: a linear warm-up over 5% of the steps from 1e-7 to the peak and a cosine over the
other 95% down to 1e-9.
"""

from __future__ import annotations

import math

from ape_cli.data.loader import ImageSplit, Split
from ape_cli.runs.config import Config


def learning_rate(step: int, steps: int, config: Config) -> float:
    """Of optimiser step `step` = 0 .. steps-1: linear to the peak, then a cosine to the end."""
    warm = math.ceil(config.warmup * steps)
    if step < warm:
        return config.lr_initial + (config.lr_peak - config.lr_initial) * step / warm
    done = (step - warm) / max(1, steps - 1 - warm)
    return config.lr_final + (config.lr_peak - config.lr_final) * 0.5 * (1 + math.cos(math.pi * done))


def total_steps(config: Config, train: Split | ImageSplit) -> tuple[int, int]:
    """Steps of the whole run, and between validations."""
    per_epoch = train.steps(config.batch_size)
    every = config.validate_every_steps or (config.validate_every_epochs or 1) * per_epoch
    return steps_of(config, per_epoch), every


def steps_of(config: Config, per_epoch: int) -> int:
    """Steps of the whole run."""
    return config.steps or (config.epochs or 1) * per_epoch
