"""Peak memory of `ape train` on 2,000,000 rows, compared with 100,000 rows: the same steps, over three windows of rows.

The data are words of 20 symbols and the preset is `tiny`, so that rows need more memory than the model. Both sides have
few validation rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._measure import Row, Usage, ape, pair_of, process

SUMMARY = "peak memory of training on 2,000,000 rows, divided by that on 100,000"
MANY, FEW, ROUNDS = 2_000_000, 100_000, 3
TRAIN = "train --scheme none --preset tiny --no-eval --threads 1 --device cpu --overwrite --set batch_size=1024"
STEPS = "--set steps=80 --set validate_every_steps=40"  # a window has 32,768 rows: 32 steps


def measure() -> Iterator[Row]:
    """The ratio of peaks, and that of elapsed times."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        sizes = "--length-mean 20 --length-std 2 --n-validation 100 --n-test 0"
        for rows in (MANY, FEW):
            process(ape("gen", "reverse", *sizes.split(), "--n", str(rows), "--out", str(at / str(rows))))
        many, few = zip(*((_train(at, MANY), _train(at, FEW)) for _ in range(ROUNDS)), strict=True)
    pair = pair_of([u.peak for u in many], [u.peak for u in few])
    absolute = {f"{MANY:,} rows MiB": pair.a / 2**20, f"{FEW:,} rows MiB": pair.b / 2**20}
    yield Row("peak memory, 2,000,000 rows / 100,000", pair.ratio, 1.1, low=pair.low, high=pair.high, absolute=absolute)
    wall = pair_of([u.wall for u in many], [u.wall for u in few])
    absolute = {f"{MANY:,} rows s": wall.a, f"{FEW:,} rows s": wall.b}
    yield Row("time of the same, shards verified before", wall.ratio, low=wall.low, high=wall.high, absolute=absolute)


def _train(at: Path, rows: int) -> Usage:
    """Train on the dataset with `rows` rows. -> what the process used"""
    return process(ape(*TRAIN.split(), *STEPS.split(), "--data", str(at / str(rows)), "--results", str(at / "results")))
