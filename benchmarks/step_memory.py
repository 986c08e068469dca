"""The peak memory of a training step of every scheme, divided by that of `none` on the same batches.

All memory that torch allocates counts: the parameters, their gradients and the state of the optimiser, which stay
allocated, and what a step adds at its peak. On a CPU it is computed from the allocations that the profiler records.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.profiler import ProfilerActivity, profile

from ape_cli import position
from ape_cli.models.device import tune
from benchmarks._measure import Row
from benchmarks._steps import SHAPES, Shape, Step, models_of, own_structure, task_of
from benchmarks.step import BARS, DEVICE

SUMMARY = "peak memory of a training step of every scheme, divided by that of `none`"
MIB = 2**20


def measure() -> Iterator[Row]:
    """The ratio of every scheme, at every shape, without and with the locality bias."""
    tune()
    plain: dict[tuple[Shape, str, str], int] = {}
    for shape in SHAPES:
        for name in position.names():
            expression = own_structure(name)
            task, model = task_of(expression), models_of(name)[0]
            key = shape, task, model
            if key not in plain:
                step = Step("none", shape, task=task, expression="seq", decay=1.0, device=DEVICE, model=model)
                plain[key] = peak(step)
            for decay in BARS:
                if (name, decay) == ("none", 1.0):
                    continue
                step = Step(name, shape, task=task, expression=expression, decay=decay, device=DEVICE, model=model)
                memory = peak(step)
                bias = "" if decay == 1.0 else f", locality bias {decay:g}"
                yield Row(
                    what=f"{name} on {expression}; {shape.name}{bias}",
                    value=memory / plain[key],
                    bar=1.3,
                    absolute={f"{name} MiB": memory / MIB, "none MiB": plain[key] / MIB},
                )


def peak(step: Step) -> int:
    """The peak of a step on the longest of its batches, in bytes."""
    longest = step.batches[-1]
    step(longest)  # the first step allocates the state of the optimiser
    step.optimiser.zero_grad(set_to_none=True)
    kept = list(step.model.parameters())
    state = [v for slot in step.optimiser.state.values() for v in slot.values()]
    standing = sum(x.numel() * x.element_size() for x in (*kept, *state))
    if step.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step(longest)
        return torch.cuda.max_memory_allocated()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step(longest)
    held, highest = 0, 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return standing + highest
