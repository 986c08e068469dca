"""Stage 2: milliseconds of a training step, of one run and of several runs at a time.

Each measurement is stored in `out`/steps.json as soon as it is made, and is not repeated. It trains with
`training.trainer.Trainer`, as `ape train` does, on data of the preset. The figure is the median of the last steps. The
clock is read after the device has finished its work.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import preset_dataset
from ape_cli.storage import files
from ape_cli.storage.paths import storage_path
from ape_cli.sweep.worker import shared_gpu
from ape_cli.training.execution import Execution
from ape_cli.training.trainer import Stopped, Trainer
from benchmarks.gpu import extras
from benchmarks.gpu.clock import Clock

KEY = [
    ("none", "tree-rotate", "breadth"),
    ("orthogonal-tree", "tree-rotate", "breadth"),
    ("tree", "tree-rotate", "breadth"),
    ("sinusoidal", "tree-rotate", "breadth"),
    ("rope", "tree-rotate", "breadth"),
    ("orthogonal-seq", "tree-rotate", "breadth"),
    ("none", "reverse", None),
    ("sinusoidal", "reverse", None),
    ("relative", "reverse", None),
    ("rope", "reverse", None),
    ("orthogonal-seq", "reverse", None),
    ("alibi", "reverse", None),
    ("t5", "reverse", None),
    ("transformer-xl", "reverse", None),
]
DECODER = ["none", "rope", "fire", "forget", "contextual", "path", "selective-rope"]  # on reverse
TOGETHER = (1, 2, 4, 8)


@dataclass(frozen=True)
class Measure:
    """One measurement."""

    scheme: str
    task: str
    order: str | None
    precision: str = "tf32"
    mode: str = "recorded"  # eager, recorded, compiled
    together: int = 1
    model: str = "encoder-decoder"

    @property
    def key(self) -> str:
        """The key of the measurement in steps.json."""
        where = f"{self.task}/{self.order}" if self.order else self.task
        model = "" if self.model == "encoder-decoder" else f", {self.model}"
        return f"{self.scheme} on {where}, {self.precision}, {self.mode}, {self.together} at a time{model}"


def measures(device: str) -> Iterator[Measure]:
    """All measurements of steps, with the most useful ones first."""
    if device != "cuda":
        for scheme, task, order in KEY[:2]:
            yield Measure(scheme, task, order, "fp32", "eager")
        yield Measure("none", "tree-rotate", "breadth", "fp32", "eager", 2)
        return
    for cell in KEY:
        yield Measure(*cell)
    for scheme in DECODER:
        yield Measure(scheme, "reverse", None, model="decoder")
    for together in TOGETHER[1:]:
        yield Measure("rope", "tree-rotate", "breadth", together=together)
    some = [KEY[0], KEY[1], KEY[6], KEY[10]]
    for cell in some:
        yield Measure(*cell, mode="eager")
        for precision in ("fp32", "bf16"):
            yield Measure(*cell, precision=precision)
    for cell in some[:1]:
        yield Measure(*cell, mode="compiled")


class _Forgetful:
    """A store that stores nothing."""

    def save_state(self, *given: Any) -> None: ...
    def load_state(self) -> None: ...


def _data(measure: Measure, preset: str, work: Path) -> Dataset:
    """The dataset of a measurement, which is generated if it is not there."""
    root = storage_path(str(work / "datasets"))
    return preset_dataset(measure.task, measure.order, preset, root)


def step_of(measure: Measure, preset: str, device: str, work: Path, steps: int, begin: float = 0.0) -> dict[str, float]:
    """Measure a step. -> milliseconds of a step, and further figures

    After the first half of the steps it waits until `begin`, in seconds since the epoch.
    """
    where = torch.device(device)
    apart = 10 if where.type == "cuda" else 1  # steps between two readings of the clock
    data = _data(measure, preset, work)
    chosen = ExperimentSpec(
        preset=preset, scheme=measure.scheme, precision=measure.precision, model=measure.model
    ).config("sequence")
    times: list[float] = []

    def stop() -> bool:
        if len(times) == steps // 2:
            extras.wait(where)
            while time.time() < begin:
                time.sleep(0.01)
        if len(times) % apart == 0:
            extras.wait(where)
        times.append(time.perf_counter())
        return len(times) >= steps

    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    loop = Trainer(
        experiment.of(chosen, data),
        _Forgetful(),
        Execution(where, compiled=measure.mode == "compiled", stop=stop),
    )
    if loop.replay is not None:
        loop.replay.records = measure.mode == "recorded"
    # the measured steps include no validation
    loop.progress.schedule = loop.progress.schedule.model_copy(update={"validate_every": steps + 1})
    start = time.perf_counter()
    try:
        loop.run()
    except Stopped:
        pass
    else:
        raise RuntimeError(f"the run is too short to measure {steps} steps of it")
    looks = times[steps // 2 :: apart]
    figures = {
        "ms": 1e3 * statistics.median(b - a for a, b in itertools.pairwise(looks)) / apart,
        "first_half_s": times[steps // 2] - start,
        "steps": float(steps),
        "tflop": _tflop(loop),
    }
    if where.type == "cuda":
        figures["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
        figures["shapes"] = float(len(loop.replay.seen)) if loop.replay else 0.0
        begun = time.perf_counter()
        loop.score(loop.validation)
        figures["validation_s"] = time.perf_counter() - begun
    return figures


def _tflop(loop: Trainer) -> float:
    """TFLOP of the products of weights and tokens in a step, once forward and twice backward, without padding."""
    plan, weights = loop.train.manifest, {"encoder": 0, "decoder": 0}
    for name, value in loop.model.named_parameters():
        if (part := name.split(".")[0]) in weights and value.dim() == 2:
            weights[part] += value.numel()
    config = loop.config
    tokens = plan.mean_tokens * (2 if config.decoder_only else 1)  # a decoder-only model reads source and target
    return 6 * sum(weights.values()) * tokens * config.batch_size / 1e12


def steps(preset: str, device: str, out: Path, work: Path, clock: Clock, note: Callable[[str], None]) -> dict[str, Any]:
    """Make the measurements that are missing, while there is time. -> the content of steps.json"""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "steps.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    content |= {"machine": _machine(device), "preset": preset}
    if "rates" not in content:
        content["rates"] = extras.rates(device)
    slowest = 10.0
    for section, key, call in _calls(preset, device, work):
        kept = content.setdefault(section, {})
        if key in kept:
            continue
        if clock.left < 1.5 * slowest:
            note(f"steps: no time for {key} and the measurements after it")
            break
        begun = time.monotonic()
        kept[key] = call()
        slowest = max(10.0, time.monotonic() - begun)
        if rate := content["rates"].get(f"{kept[key].get('precision')} TFLOP/s"):
            kept[key]["over_floor"] = round(kept[key]["ms"] * rate / (1e3 * kept[key]["tflop"]), 3)
        note(f"{section}: {key}: {json.dumps({k: v for k, v in kept[key].items() if k not in _SAID})}")
        files.write_json(path, content)
    return content


# not printed, because the key of a row says it
_SAID = {"scheme", "task", "order", "precision", "mode", "together", "model"}
Call = tuple[str, str, Callable[[], dict[str, Any]]]  # section of steps.json, key in it, function that measures it


def _calls(preset: str, device: str, work: Path) -> Iterator[Call]:
    """All measurements, with the most useful ones first."""
    count = 400 if device == "cuda" else 12
    for measure in measures(device):
        yield "rows", measure.key, partial(_row, measure, preset, device, work, count)
    for length in extras.LENGTHS[device]:
        for scheme in extras.SCHEMES if device == "cuda" else extras.SCHEMES[:2]:
            name = f"{scheme}, {length} tokens"
            yield "growth", name, partial(extras.growth, scheme, length, preset, device)
    for length in extras.LENGTHS[device]:
        for scheme, backend in extras.BACKENDS if device == "cuda" else extras.BACKENDS[:1]:
            name = f"{scheme}, {length} tokens, {backend}"
            yield "backends", name, partial(extras.growth, scheme, length, preset, device, backend)
    yield "generation", "tree-rotate", partial(extras.generation, device)


def _row(measure: Measure, preset: str, device: str, work: Path, count: int) -> dict[str, Any]:
    """Make a measurement of steps. -> its fields and its figures"""
    several = measure.together > 1
    row = (_together if several else step_of)(measure, preset, device, work, count)
    return {**asdict(measure), **{k: float(f"{v:.5g}") for k, v in row.items()}}


def _together(measure: Measure, preset: str, device: str, work: Path, count: int) -> dict[str, float]:
    """Measure several processes that train one run each. `ms` is the time of a step over all processes."""
    _data(measure, preset, work)  # generate it before the processes start
    begin = time.time() + 25.0 if device == "cuda" else 0.0
    words = (asdict(measure), preset, device, str(work), count, begin)
    call = f"from benchmarks.gpu.steps import print_step; print_step(*{words!r})"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with shared_gpu(device == "cuda") as shares:
        children = [
            subprocess.Popen([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True, env=environment)
            for _ in range(measure.together)
        ]
        said = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise RuntimeError(f"{measure.key}: a process failed")
    figures = [json.loads(text.strip().splitlines()[-1]) for text in said]
    pace = sum(1.0 / row["ms"] for row in figures)
    return {
        "ms": 1.0 / pace,
        "slowest_ms": max(row["ms"] for row in figures),
        "shared": float(shares),
        "tflop": statistics.mean(row["tflop"] for row in figures),
    }


def print_step(measure: dict[str, Any], preset: str, device: str, work: str, count: int, begin: float) -> None:
    """Measure a step in this process and print the figures as one line of JSON."""
    torch.set_num_threads(1)
    print(json.dumps(step_of(Measure(**measure), preset, device, Path(work), count, begin)))


def _machine(device: str) -> dict[str, Any]:
    """A description of this machine."""
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    return {"device": name, "cores": os.cpu_count(), "torch": torch.__version__, "python": sys.version.split()[0]}
