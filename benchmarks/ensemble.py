"""Three seeds of a configuration as one batched computation, compared with the same three one after the other.

Each seed has the batches of its training, in its own order, so a batched step is padded to the longest of three.
Models have no dropout and are not compiled. The benchmark first asserts in float64 that both ways give the same result.
Batching is not faster at the sizes that matter, so `ape train` has no such option (see maintainers/benchmarks.md).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from ape_cli import experiment
from ape_cli.data.batches import SequenceBatch
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import preset_dataset
from ape_cli.models import factory
from ape_cli.models.device import tune
from ape_cli.models.transformer import Transformer
from benchmarks._measure import Row, pair_of, paired
from benchmarks._members import Folded, Joined, Singles, Vmapped, Way
from benchmarks._steps import Shape, sequences

SUMMARY = "three seeds trained as one batched computation, compared with one after the other and with processes"

_STATUS = Path("/proc/self/status")  # exists on Linux only
_SEEDS = (42, 1312, 2310)
_TINY, _SMALL = Shape("tiny", 16), Shape("small", 64)
_STEPS = {"tiny": 13, "small": 4}  # in a round; for tiny, this is an epoch
_ROUNDS = {"tiny": 15, "small": 5}
_WAYS: dict[str, Callable[[Sequence[Transformer]], Way]] = {"vmap": Vmapped, "by hand": Folded}
_CASES = [("none", "vmap"), ("none", "by hand"), ("rope", "by hand")]  # rope has no rule for vmap


def measure() -> Iterator[Row]:
    """All ratios: padding, time of batched steps, steps of separate processes, and memory."""
    # attention has no batching rule on a CPU: vmap loops over the members there, which is part of the measurement
    warnings.filterwarnings("ignore", message=".*not yet implemented the batching rule.*")
    tune()
    device, cores = torch.device("cuda" if torch.cuda.is_available() else "cpu"), os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for shape, task in ((_TINY, "reverse"), (_SMALL, "reverse"), (_SMALL, "tree-rotate")):
            yield _padding(shape, task, root)
        for shape in (_TINY, _SMALL):
            for scheme, way in _CASES:
                yield _beside(shape, scheme, way, root, device)
            yield _beside(shape, "none", "by hand", root, device, alike=True)
        if device.type == "cpu" and cores > 1:
            for shape in (_TINY, _SMALL):
                yield _beside(shape, "none", "by hand", root, device, cores)
                yield _processes(shape, root, cores)
        if _STATUS.exists():
            yield _memory(_SMALL, root)


def _padding(shape: Shape, task: str, root: Path) -> Row:
    """Tokens of batched steps, divided by those of the same steps one after the other."""
    steps = _batches(shape, _data(shape, task, root), 100)
    joined = sum(j.source_ids.numel() + j.labels.numel() for j in map(Joined.of, steps))
    apart = sum(b.source_ids.numel() + b.labels.numel() for step in steps for b in step)
    return Row(f"tokens, three {task} batches padded alike / each by itself ({shape.name})", joined / apart)


def _beside(
    shape: Shape, scheme: str, way: str, root: Path, device: torch.device, threads: int = 1, alike: bool = False
) -> Row:
    """Time of batched steps of three members, divided by that of the same steps one after the other.

    With `alike`, all members get the batches of the first one, so the ratio is that without padding. No two seeds have
    the same batches in training.
    """
    data = _data(shape, "reverse", root)
    members = [m.to(device) for m in _members(shape, scheme, data)]
    steps = [[b.to(device) for b in step] for step in _batches(shape, data, _STEPS[shape.preset])]
    if alike:
        steps = [step[:1] * len(step) for step in steps]
    _assert_equal(members, _WAYS[way], steps[:2])
    batched, apart = (partial(_run, made(members), steps, device) for made in (_WAYS[way], Singles))
    # one thread: processor time, which does not pass while other programs use the processor
    clock = time.process_time if threads == 1 and device.type == "cpu" else time.perf_counter
    usual = torch.get_num_threads()
    torch.set_num_threads(threads)
    pair = paired(batched, apart, rounds=_ROUNDS[shape.preset], clock=clock)
    torch.set_num_threads(usual)
    where = device.type if device.type == "cuda" else f"threads {threads}"
    what = (
        f"three of {scheme}{' on the same batch' * alike}, batched {way} / one after the other ({shape.name}, {where})"
    )
    absolute = {"batched step of three ms": 1e3 * pair.a / len(steps), "three steps ms": 1e3 * pair.b / len(steps)}
    return Row(what, pair.ratio, low=pair.low, high=pair.high, absolute=absolute)


def _run(way: Way, steps: list[list[SequenceBatch]], device: torch.device) -> None:
    for step in steps:
        way(step)
    if device.type == "cuda":
        torch.cuda.synchronize()


def _assert_equal(
    members: Sequence[Transformer], way: Callable[[Sequence[Transformer]], Way], steps: list[list[SequenceBatch]]
) -> None:
    """Assert that losses and weights are equal after some steps.

    This uses float64, because AdamW makes full steps from gradients that are only rounding errors. The gradient of the
    biases of the keys is of this kind, because softmax cancels them.
    """
    batched, apart = (made([m.double() for m in members]) for made in (way, Singles))
    for step in steps:
        torch.testing.assert_close(batched(step), apart(step), rtol=1e-5, atol=0.0)  # losses are summed in float32
    torch.testing.assert_close(dict(batched.weights()), dict(apart.weights()), rtol=0.0, atol=1e-7)
    for member in members:
        member.float()


def _processes(shape: Shape, root: Path, cores: int) -> Row:
    """Steps per second of one process for each member, at most one per core, divided by those of one on all cores."""
    count = min(cores, len(_SEEDS))
    _data(shape, "reverse", root)  # generated before the processes start, which all need it
    steps = 8 * _STEPS[shape.preset]
    several, single = [], []
    for _ in range(3):
        several.append(sum(steps / s for s in _alone(count, _seconds, shape, root, cores // count, steps)))
        single.append(sum(steps / s for s in _alone(1, _seconds, shape, root, cores, steps)))
    pair = pair_of(several, single)
    what = f"steps a second, {count} processes of {cores // count} / one of {cores} threads ({shape.name})"
    absolute = {"processes steps/s": pair.a, "one steps/s": pair.b}
    return Row(what, pair.ratio, at_least=True, low=pair.low, high=pair.high, absolute=absolute)


def _memory(shape: Shape, root: Path) -> Row:
    """Resident bytes that training adds to a process: three batched members, divided by one alone."""
    _data(shape, "reverse", root)
    (three,), (one,) = (_alone(1, _bytes, shape, root, made) for made in (Folded, Singles))
    return Row(
        f"memory, three batched by hand / one alone ({shape.name})",
        three / one,
        absolute={"three batched bytes": three, "one alone bytes": one},
    )


# Work in separate processes ---------------------------------------------------------------------------


def _alone(count: int, work: Callable[..., float], *given: Any) -> list[float]:
    """Call work(wait, *given) in `count` new processes at once. `wait` returns when all of them are ready."""
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(count), context.SimpleQueue()
    children = [context.Process(target=_answer, args=(answers, work, ready, *given)) for _ in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    return [answers.get() for _ in children]


def _answer(answers: Any, work: Callable[..., float], ready: Any, *given: Any) -> None:
    """Call `work` in a new process, and put the result into the queue."""
    tune()
    answers.put(work(lambda: ready.wait(60), *given))


def _seconds(wait: Callable[[], object], shape: Shape, root: Path, threads: int, count: int) -> float:
    """Seconds of `count` steps of a single member."""
    torch.set_num_threads(threads)
    data = _data(shape, "reverse", root)
    way, steps = Singles(_members(shape, "none", data)[:1]), [s[:1] for s in _batches(shape, data, count)]
    way(steps[0])
    wait()
    start = time.perf_counter()
    for step in steps:
        way(step)
    return time.perf_counter() - start


def _bytes(wait: Callable[[], object], shape: Shape, root: Path, way: type[Folded] | type[Singles]) -> float:
    """Bytes that a few steps of three members, or of a single one, add to the peak of the process."""
    torch.set_num_threads(1)
    data = _data(shape, "reverse", root)
    count = len(_SEEDS) if way is Folded else 1
    members, steps = _members(shape, "none", data)[:count], [s[:count] for s in _batches(shape, data, 2)]
    before = _resident("VmRSS")
    taken = way(members)
    for step in steps:
        taken(step)
    return _resident("VmHWM") - before


def _resident(what: str) -> int:
    """Resident bytes of this process, now (VmRSS) or at its peak (VmHWM).

    `getrusage` would include the memory of its parent.
    """
    lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return 1024 * int(lines[what].split()[0])


# Data and models -------------------------------------------------------------------------------------


def _data(shape: Shape, task: str, root: Path) -> Dataset:
    """The dataset of a preset, which is generated in `root` if it is not there."""
    return preset_dataset(task, None, shape.preset, root)


def _members(shape: Shape, scheme: str, data: Dataset) -> list[Transformer]:
    """The models of a configuration for each seed, without dropout."""
    plain = ExperimentSpec(preset=shape.preset, scheme=scheme, set={"dropout": 0.0}).config("sequence")
    settled = [experiment.complete(plain.model_copy(update={"seed": seed}), data) for seed in _SEEDS]
    built = [factory.build(config, data.structure, data.ids) for config in settled]
    return [model for model in built if isinstance(model, Transformer)]


def _batches(shape: Shape, data: Dataset, count: int) -> list[list[SequenceBatch]]:
    """The batches of the first `count` training steps: for each step, one batch per seed."""
    train = sequences(data, "train")

    def of(seed: int) -> Iterator[SequenceBatch]:
        return chain.from_iterable(train.batches(shape.batch_size, seed, epoch=epoch) for epoch in range(count))

    return [list(step) for step in islice(zip(*map(of, _SEEDS), strict=True), count)]
