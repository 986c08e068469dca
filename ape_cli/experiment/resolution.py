"""An experiment: a complete configuration, its dataset, and the structure as which positions are read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import torch

from ape_cli import position
from ape_cli.data import augmentation
from ape_cli.data.loader import Dataset
from ape_cli.experiment import completion
from ape_cli.experiment.choice import Datasets
from ape_cli.experiment.datasets import ChosenDataset, generated
from ape_cli.experiment.options import ExperimentOptions
from ape_cli.experiment.reading import ambiguity, read_as
from ape_cli.position import Scheme
from ape_cli.runs.config import Config, ImageConfig
from ape_cli.structure import Structure

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Experiment:
    """What one run trains. `of`, `of_run` and `resolve` make one.

    `read` is the structure as which the scheme reads the positions of `data`. `config` is complete, except that the
    size of a bounded scheme may be missing as long as the dataset is.
    """

    config: Config
    data: ChosenDataset | Dataset
    read: Structure

    @cached_property
    def variant(self) -> dict[str, Any]:
        """The settings that differ from the defaults of the preset and the scheme."""
        return completion.variant(self.config, self.data, self.read)

    @property
    def ambiguity(self) -> str | None:
        """Why tokens of a row can have equal positions; None if they cannot."""
        return ambiguity(self.config.scheme, self.read, self.data.structure)

    @property
    def is_sized(self) -> bool:
        """Whether the size of the scheme is known, if it is bounded by one."""
        return self.config.max_size is not None or not position.load(self.config.scheme).bounded

    @property
    def is_named(self) -> bool:
        """Whether everything is known that the name of the run depends on."""
        return bool(self.data.fingerprint) and self.is_sized

    @property
    def dataset(self) -> Dataset:
        """The dataset, if it is open (`prepared`)."""
        assert isinstance(self.data, Dataset)
        return self.data

    def feed(self, *, training: bool = False) -> dict[str, Any]:
        """The arguments with which a split of the data makes its batches."""
        if isinstance(self.config, ImageConfig):
            return {"augment": augmentation.parse(self.config.augment or "none")} if training else {}
        return {"structure": self.read}


def of(config: Config, data: ChosenDataset | Dataset) -> Experiment:
    """The experiment of a configuration, which need not be complete, on a dataset.

    Raises the errors of `reading.reading` and `completion.complete`.
    """
    read = read_as(config, data.structure)
    return Experiment(completion.complete(config, data, read), data, read)


def of_run(config: Config, data: Dataset) -> Experiment:
    """The experiment of the complete configuration of a run, on a dataset that the run fits."""
    return Experiment(config, data, read_as(config, data.structure))


def resolve(options: ExperimentOptions, found: Datasets) -> Experiment:
    """The experiment that options describe. Nothing is generated.

    Raises `ApeError` if options are not valid or do not fit together, or if there is no such dataset.
    """
    data = found.of(options)
    return of(options.config(data.kind), data)


def prepared(experiment: Experiment) -> Experiment:
    """The experiment with its dataset open. The dataset is generated if it is missing.

    Raises `DataError` if it cannot be generated, or is damaged.
    """
    assert isinstance(experiment.data, ChosenDataset)
    data = generated(experiment.data)
    return replace(experiment, config=completion.complete(experiment.config, data, experiment.read), data=data)


def make_scheme(config: Config, read: Structure, generator: torch.Generator | None = None) -> Scheme:
    """The scheme of a complete configuration, which reads positions as `read`, with the weights of its seed.

    `generator`: that of the model, which draws the scheme's weights first; None for a new one. Raises `ApeError` for a
    scheme of a user whose hooks fail, or return wrong shapes.
    """
    scheme = position.make(
        config.scheme,
        d_model=config.d_model,
        heads=config.heads,
        structure=read.algebra,
        max_size=config.max_size or 1,
        decay=config.decay,
        generator=generator or torch.Generator().manual_seed(config.seed),
        **config.scheme_options,
    )
    position.check_hooks(scheme)
    _warn_if_idle(config.scheme)
    return scheme


@cache
def _warn_if_idle(scheme: str) -> None:
    """Warn once if a scheme overrides no hook."""
    if idle := position.without_hooks(position.load(scheme)):
        logger.warning(f"{idle.summary}: {idle.fix}")
