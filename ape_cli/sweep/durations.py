"""How long a trial will take: from registered runs that are like it, or else from the size of its model.

An estimate from similar runs is their pace times the work of a trial. Work is the product of steps, batch size and mean
tokens of a source. This neglects the fixed cost of a step, and that the cost of attention grows with the square of the
tokens. Time is not proportional to the width or depth of a model, so only runs of the same model are similar.

Without such runs, the multiplications of a step are counted and divided by the measured speed of a product of the
model's width. If runs of other models on this machine are registered, the result is multiplied by the ratio between
their times and the times that the same count gives for them. The scheme and the kind of attention are neglected, and
targets are taken to be as long as their sources. The two constants come from steps on one core with each preset.

The 1,149 runs of record on CPUs, with 130 GFLOP/s for all of their machines, took 0.33 to 79 times such an estimate.
The median is 1.05, and 78% took 0.5 to 2 times as long. On GPUs, with 20,000 GFLOP/s for `medium`, the median is 1.96.

Units: seconds; multiplications of a forward pass.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from ape_cli.core import runtime
from ape_cli.data.loader import Dataset
from ape_cli.experiment.reading import tokenising
from ape_cli.models import speed
from ape_cli.models.device import gpu_name
from ape_cli.runs.config import Config, ImageConfig
from ape_cli.runs.record import DatasetRecord, RunRecord
from ape_cli.runs.registry import Registry
from ape_cli.training import schedule

SIMILAR, OTHERS, SIZE = "registered runs", "registered runs of other models", "the size of the model"

_LAYER = 2.5e-3  # seconds that a step takes for each layer, however small the layer
_EFFICIENCY = 0.35  # speed of a whole step relative to that of a product alone
_PASSES = 3  # a backward pass multiplies twice as much as a forward pass


@dataclass(frozen=True)
class Estimate:
    """The estimated seconds of a trial, and what they rest on: `SIMILAR`, `OTHERS` or `SIZE`."""

    seconds: float
    basis: str


class PastRuns:
    """The speed of registered runs and of this machine, and the facts about the datasets of the runs."""

    def __init__(self, registry: Registry, device: str = "cpu", threads: int = 1) -> None:
        """Read all runs of the registry. Times are those on one kind of device, `cpu` or `cuda`.

        `threads`: the number of CPU threads of a trial.
        """
        self.paces: dict[Any, list[float]] = {}  # seconds for each step, row and token
        self.datasets: list[DatasetRecord] = []
        self.device, self.threads = device, threads
        self._here: list[RunRecord] = []  # finished runs on this machine
        self._speeds: dict[Any, float] = {}
        self._ratio: float | None = None
        for _, record in registry.readable():
            data, config = record.dataset, record.config
            self.datasets.append(data)
            if record.status == "finished" and record.device == device:
                self._here += [record] if self._is_here(record) else []
                work = record.outcome.steps * config.batch_size * data.mean_tokens
                for key in _alike(config, data.task, data.order) if work else ():
                    self.paces.setdefault(key, []).append(record.outcome.seconds / work)

    def estimate(self, config: Config, data: Dataset) -> Estimate | None:
        """The estimate for a trial. None without similar runs if its kind of device is not on this machine."""
        steps = schedule.steps_of(config, -(-data.plan.rows["train"] // config.batch_size))
        paces = next((self.paces[key] for key in _alike(config, data.task, data.order) if key in self.paces), None)
        if paces is not None:
            seconds = statistics.median_high(paces) * steps * config.batch_size * data.mean_tokens
            return Estimate(seconds, SIMILAR)
        if self.device == "cuda" and not gpu_name():
            return None
        if self._ratio is None:  # weighted by time, because a start-up distorts short runs
            expected = sum(record.outcome.steps * self._step(record.config, record.dataset) for record in self._here)
            self._ratio = sum(record.outcome.seconds for record in self._here) / expected if expected else 1.0
        return Estimate(self._ratio * steps * self._step(config, data), OTHERS if self._here else SIZE)

    def _is_here(self, record: RunRecord) -> bool:
        """Whether a run was trained on a machine like this one."""
        if self.device == "cuda":
            return bool(record.gpu) and record.gpu == gpu_name()
        return (record.processor or {}).get("name") == runtime.processor_name()

    def _step(self, config: Config, data: Dataset | DatasetRecord) -> float:
        """The seconds of a step, from the size of the model."""
        key = config.d_model, max(config.feed_forward_widths), config.precision
        if key not in self._speeds:
            self._speeds[key] = speed.layer(*key, self.device, self.threads)
        work = 2 * _PASSES * config.batch_size * multiplications(config, data)
        return _LAYER * len(config.feed_forward_widths) + work / (_EFFICIENCY * self._speeds[key] * 1e9)


def multiplications(config: Config, data: Dataset | DatasetRecord) -> float:
    """The multiplications of a forward pass for a row of mean size, without those of the vocabulary."""
    width, hidden = config.d_model, config.feed_forward_widths

    def layers(tokens: float) -> float:
        """Those of all layers: their projections, their feed-forward blocks, scores and weighted means."""
        return tokens * width * (len(hidden) * (4 * width + 2 * tokens) + 2 * sum(hidden))

    if isinstance(config, ImageConfig):
        assert data.image is not None
        height, broad, channels = data.image
        rows, columns = tokenising(config).grid(height, broad)
        pixels = height * broad / config.convolution_stride**2
        convolution = pixels * config.convolution_size**2 * channels * width
        return convolution + layers(rows * columns)
    tokens = data.mean_tokens + 1  # with the EOS
    if config.is_joined:
        return layers(2 * tokens)
    between = tokens * width * (4 * width + 2 * tokens)  # attention from the decoder to the encoder
    return layers(tokens) + getattr(config, "decoder_layers", 0) * between


# fields that an estimate does not depend on, or takes into account
_SCALED = {"seed": 0, "steps": None, "epochs": None, "batch_size": 1}
_MODEL = ["model", "d_model", "d_ff", "d_ff_decoder", "heads", "encoder_layers", "decoder_layers", "precision"]
_MODEL += ["convolution_size", "convolution_stride", "pool_size", "pool_stride"]  # for images


def _alike(config: Config, task: str, order: str | None) -> list[Any]:
    """Keys that similar runs share, from the most specific to the least. All of them include the model."""
    digest = config.model_copy(update=_SCALED).digest(f"{task} {order}")
    model = (config.kind, *(getattr(config, name, None) for name in _MODEL))
    return [
        (digest, "configuration"),
        (model, task, order, config.scheme, config.structure, config.attention, config.positions),
        (model, task, order),
        (model,),
    ]
