"""A training step of every scheme, compared with `none` on plain scaled_dot_product_attention and the same batches.

A step is forward, backward and the fused AdamW, with the dropout of the preset. There is one batch of medium lengths,
or three batches (short, medium and long) in turn. `none` reads the same batches along their linearisation, without a
locality bias. Each scheme is measured on data of its own structure, with the bias off and at 0.98, on all threads; and
in a decoder-only model, with the bias off.
The two sides take turns. The ratio is the median over the rounds, with quartiles.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ape_cli import position
from ape_cli.models.device import tune
from benchmarks._measure import Row, pair_of
from benchmarks._steps import SHAPES, Shape, Step, models_of, own_structure, task_of

SUMMARY = "time of a training step of every scheme, divided by that of `none`"
ROUNDS = dict(zip(SHAPES, (25, 7, 3), strict=True))
BARS = {1.0: 1.15, 0.98: 1.35}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def measure() -> Iterator[Row]:
    """The ratio of every scheme, at every shape, without and with the locality bias."""
    tune()
    for shape in SHAPES:
        for name in position.names():
            for model in models_of(name):
                for decay, bar in BARS.items():
                    if (name, decay) != ("none", 1.0) and (model != "decoder" or decay == 1.0):
                        yield row(name, shape, decay, bar, model)


def row(name: str, shape: Shape, decay: float, bar: float, model: str) -> Row:
    """The ratio of one scheme in one of the models."""
    expression = own_structure(name)
    task = task_of(expression)
    ours = Step(name, shape, task=task, expression=expression, decay=decay, device=DEVICE, model=model)
    plain = Step("none", shape, task=task, expression="seq", decay=1.0, device=DEVICE, model=model)
    for step in (ours, plain):
        step.seconds()  # warm up
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(ROUNDS[shape]):  # a b b a
        for which in (1, 0) if i % 2 else (0, 1):
            times[which].append((ours, plain)[which].seconds() / len(ours.batches))
    pair = pair_of(*times)
    bias = ", decoder-only" if model == "decoder" else "" if decay == 1.0 else f", locality bias {decay:g}"
    return Row(
        what=f"{name} on {expression}; {shape.name}{bias}",
        value=pair.ratio,
        bar=bar,
        low=pair.low,
        high=pair.high,
        absolute={f"{name} s": pair.a, "none s": pair.b},
    )
