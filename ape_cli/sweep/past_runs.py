"""What registered runs tell about the trials of a sweep: their datasets, and the time that they take."""

from __future__ import annotations

import statistics
from typing import Any

from ape_cli.data.plan import DatasetInfo
from ape_cli.experiment.recorded import RecordedDatasets
from ape_cli.runs.config import Config
from ape_cli.runs.registry import Registry
from ape_cli.training import schedule


class PastRuns:
    """The speed of registered runs, and the facts about their datasets.

    An estimate is the pace of similar runs times the work of a trial. Work is the product of steps, batch size and mean
    tokens of a source. This neglects the fixed cost of a step, and that the cost of attention grows with the square of
    the tokens. Time is not proportional to the width or depth of a model, so only runs of the same model are similar.
    """

    def __init__(self, registry: Registry, device: str = "cpu") -> None:
        """Read all runs of the registry. Their paces are those on one kind of device, `cpu` or `cuda`."""
        self.paces: dict[Any, list[float]] = {}  # seconds for each step, row and token
        self.datasets = RecordedDatasets()
        for _, known in registry.readable([]):
            data, config = known.dataset, known.config
            self.datasets.add(data)
            if known.status == "finished" and known.device == device:
                work = known.outcome.steps * config.batch_size * data.mean_tokens
                for key in _alike(config, data.task, data.order) if work else ():
                    self.paces.setdefault(key, []).append(known.outcome.seconds / work)

    def seconds(self, config: Config, data: DatasetInfo) -> float | None:
        """The estimated seconds of a trial, from the median pace of the most similar runs, or None without any."""
        steps = schedule.steps_of(config, -(-data.plan.rows["train"] // config.batch_size))
        for key in _alike(config, data.task, data.order):
            if key in self.paces:
                return statistics.median_high(self.paces[key]) * steps * config.batch_size * data.mean_tokens
        return None


# fields that an estimate does not depend on, or takes into account
_SCALED = {"seed": 0, "steps": None, "epochs": None, "batch_size": 1}
_MODEL = ["d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "precision"]
_MODEL += ["convolution_size", "convolution_stride", "pool_size", "pool_stride"]  # for images


def _alike(config: Config, task: str, order: str | None) -> list[Any]:
    """Keys that similar runs share, from the most specific to the least. All of them include the model."""
    own = config.model_copy(update=_SCALED).digest(f"{task} {order}")
    model = (config.kind, *(getattr(config, name, None) for name in _MODEL))
    return [
        (own, "configuration"),
        (model, task, order, config.scheme, config.structure, config.attention),
        (model, task, order),
        (model,),
    ]
