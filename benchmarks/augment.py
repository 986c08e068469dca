"""The cost of AutoAugment compared with crop and flip, and with a copy of the images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ape_cli.data import augmentation
from benchmarks._measure import Row, paired

SUMMARY = "augmentation of 128 images of 32 x 32 x 3, on one thread"
COUNT = 128


def measure() -> Iterator[Row]:
    """Ratios of the time per batch of images."""
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (COUNT, 9, 9, 3), dtype=np.uint8)
    pixels = coarse.repeat(4, axis=1).repeat(4, axis=2)[:, :32, :32].copy()  # flat areas and edges, as in photographs
    seeds = [[42, 0, row] for row in range(COUNT)]
    shifted = partial(augmentation.apply, ("crop", "flip"), pixels, seeds)
    all_steps = partial(augmentation.apply, augmentation.NAMES, pixels, seeds)
    for what, a, b in (
        ("crop, flip, autoaugment / crop, flip", all_steps, shifted),
        ("crop, flip, autoaugment / copy", all_steps, pixels.copy),
        ("crop, flip / copy", shifted, pixels.copy),
    ):
        pair = paired(a, b, rounds=60, warmup=5)
        absolute = {"ms": 1000 * pair.a, "images/s": COUNT / pair.a, "beside ms": 1000 * pair.b}
        yield Row(what, pair.ratio, low=pair.low, high=pair.high, absolute=absolute)
