"""A training step, compared with the least that it can take on this machine.

The floor is the time of the step's matrix products at the speed of large ones, plus one write and one read of each
activation that the backward pass needs. The step is forward, backward and the fused AdamW, with dropout 0.1, on one
thread and one batch of medium length.

Speeds are measured in the same process: of the linear layers of `ape doctor --speed`, and of a copy in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ape_cli.models import speed
from ape_cli.models.device import forward_pass, tune
from ape_cli.runs import config
from benchmarks._measure import Row, quartiles
from benchmarks._steps import Shape, Step

SUMMARY = "a training step, divided by the time of its products and of reading and writing its activations"
SHAPES = [(Shape("small", 64), None), (Shape("medium", 64), 2.2), (Shape("paper", 16), 1.8)]
ROUNDS = {"small": 25, "medium": 9, "paper": 7}
CPU = torch.device("cpu")


def measure() -> Iterator[Row]:
    """The ratio for a rotation and a learned one, in float32 and bfloat16."""
    tune()
    torch.set_num_threads(1)
    memory = _bytes_per_second()
    gflops: dict[str, float] = {}
    for measured in speed.measure(CPU):
        gflops[measured.precision] = max(measured.gflops, gflops.get(measured.precision, 0.0))
    for shape, bar in SHAPES:
        for name in ("rope", "orthogonal-seq"):
            for precision in ("fp32", "bf16"):
                yield _row(name, shape, precision, bar if precision == "fp32" else None, gflops[precision], memory)


def _row(name: str, shape: Shape, precision: str, bar: float | None, gflops: float, memory: float) -> Row:
    """The ratio of one scheme. `memory`: bytes per second."""
    step = Step(name, shape, task="reverse", expression="seq", decay=1.0, dropout=0.1)
    with forward_pass(precision, CPU, config.preset(shape.preset).sequence["d_model"]):
        operations, moved = _counted(step)
        times = [step.seconds() for _ in range(ROUNDS[shape.preset])]
    products, activations = operations / gflops / 1e9, moved / memory
    ratios = [taken / (products + activations) for taken in times]
    low, middle, high = quartiles(ratios)
    absolute = {"step s": quartiles(times)[1], "products s": products, "activations s": activations}
    return Row(f"{name} on reverse; {shape.name}, {precision}", middle, bar, low=low, high=high, absolute=absolute)


def _counted(step: Step) -> tuple[float, float]:
    """The operations of the products of a step, and the bytes that its activations move: a write and a read each."""
    kept: dict[int, int] = {}
    parameters = {p.data_ptr() for p in step.model.parameters()}

    def note(x: Tensor) -> Tensor:
        """Count a stored tensor once."""
        storage = x.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    step.seconds()  # warm up
    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        step()
    return counter.get_total_flops(), 2.0 * sum(kept.values())


def _bytes_per_second() -> float:
    """The bytes that a copy in memory reads and writes per second."""
    source, target = (torch.zeros(2**26, dtype=torch.uint8) for _ in range(2))
    return 2 * len(source) / speed.seconds(lambda: target.copy_(source), CPU)
