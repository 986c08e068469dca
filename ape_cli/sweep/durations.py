"""How long a trial will take: the pace of registered runs of the same model, times the work of the trial.

Work is the product of steps, batch size and mean tokens of a source. This neglects the fixed cost of a step, and that
the cost of attention grows with the square of the tokens. Time is not proportional to the width or depth of a model, so
nothing is known without a run of the same model.
"""

from __future__ import annotations

import statistics
from typing import Any

from ape_cli.data.loader import Dataset
from ape_cli.runs.config import Config
from ape_cli.runs.record import DatasetRecord
from ape_cli.runs.registry import Registry
from ape_cli.training import schedule

_MODEL = ["model", "d_model", "d_ff", "d_ff_decoder", "heads", "encoder_layers", "decoder_layers", "precision"]
_MODEL += ["convolution_size", "convolution_stride", "pool_size", "pool_stride"]  # for images


class PastRuns:
    """The paces of registered runs, and the facts about their datasets."""

    def __init__(self, registry: Registry, device: str = "cpu") -> None:
        """Read all runs of the registry. Paces are those on one kind of device, `cpu` or `cuda`."""
        self.paces: dict[Any, list[float]] = {}  # seconds for each step, row and token
        self.datasets: list[DatasetRecord] = []
        for _, record in registry.readable():
            self.datasets.append(record.dataset)
            if record.status == "finished" and record.device == device:
                work = record.outcome.steps * record.config.batch_size * record.dataset.mean_tokens
                for key in _alike(record.config) if work else ():
                    self.paces.setdefault(key, []).append(record.outcome.seconds / work)

    def estimate(self, config: Config, data: Dataset) -> float | None:
        """The estimated seconds of a trial, or None if no run has the same model."""
        paces = next((self.paces[key] for key in _alike(config) if key in self.paces), None)
        if paces is None:
            return None
        steps = schedule.steps_of(config, -(-data.plan.rows["train"] // config.batch_size))
        return statistics.median_high(paces) * steps * config.batch_size * data.mean_tokens


def _alike(config: Config) -> list[Any]:
    """Keys that runs of the same model share: first those of the same scheme and attention, then all."""
    model = (config.modality, *(getattr(config, name, None) for name in _MODEL))
    return [(model, config.scheme, config.structure, config.attention), model]
