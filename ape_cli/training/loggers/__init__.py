"""Metric loggers: one file per logger. The file's stem, with `_` replaced by `-`, is the name for `--log`.

The training loop logs two kinds of metrics, each with the number of optimiser steps that are done. Losses are in nats
for each token. Accuracies and `kept` are fractions. Tokens are counted without padding, and an image is one token.
`epoch` counts complete passes over the training rows. `seconds` is the time of the whole training, and
`tokens_per_second` leaves out validations, checkpoints and loggers.

| when | metrics |
|---|---|
| every few steps | `recent_loss`, `recent_token_accuracy`, `tokens_per_second` (since the last time) |
| at each validation | `epoch`, `loss`, `token_accuracy` (since the last validation), `lr`, `validation_loss`, `validation_token_accuracy`, `seconds`, `tokens` |
| the same, for images | also `test_loss`, `test_token_accuracy`, and `kept`: 1 if these are the best weights so far |
"""  # noqa: E501 - a table

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import NeedsError
from ape_cli.core.extras import how_to_get
from ape_cli.runs.config import Config
from ape_cli.storage.paths import StoragePath

__path__ = pkgutil.extend_path(__path__, __name__)  # so that loggers in another ape_cli/training/loggers are found


@dataclass(frozen=True)
class LoggedRun:
    """The run that a logger is opened for."""

    name: str
    config: Config
    folder: StoragePath  # where the logger may write files; deleted if the run is overwritten
    steps: int  # of the whole run
    history: Sequence[Mapping[str, Any]]  # the validations so far, if the run is resumed
    step: int = 0  # the step that the run starts or resumes after


class MetricLogger(ABC):
    """Receives the metrics of one run. A logger that `--log` finds is constructed with a `LoggedRun`."""

    part_kind: ClassVar[str] = "logger"  # for messages
    needs: ClassVar[str | None] = None  # a package that the logger needs and that ape-cli does not install
    extra: ClassVar[str | None] = None  # the extra of ape-cli that installs it

    @abstractmethod
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Receive the metrics after `step` optimiser steps."""

    def flush(self) -> None:  # noqa: B027 - most loggers write at once
        """Write what was logged so far. The state of the run is stored afterwards, and a killed run resumes from it."""

    def failed(self, error: BaseException) -> None:  # noqa: B027 - most loggers need not know
        """Learn that the run ends with an error, or was stopped by the user. `close` is called afterwards."""

    @abstractmethod
    def close(self) -> None:
        """Write everything that is not written yet. The run has ended, was stopped, or has failed."""


LoggerFactory: TypeAlias = Callable[[LoggedRun], MetricLogger]


def is_validation(metrics: Mapping[str, float]) -> bool:
    """Whether these are the metrics of a validation. Otherwise they are those of the last few steps."""
    return "validation_loss" in metrics


def names() -> list[str]:
    """The names of all loggers, from the files in this folder."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> LoggerFactory:
    """The class of a logger.

    Raises `UsageError` for an unknown name and for a logger whose package is missing, and `ApeError` if the file of the
    logger cannot be imported.
    """
    logger = plugins.load(sys.modules[__name__], name, MetricLogger)  # type: ignore[type-abstract]
    if fix := how_to_get(logger.needs, logger.extra):
        raise NeedsError(f"{logger.needs} is not installed", got=f"`log={name}`", fix=fix)
    return logger


@contextmanager
def opened(factories: Sequence[LoggerFactory], run: LoggedRun) -> Iterator[list[MetricLogger]]:
    """Open loggers for a run. Each of them is closed at the end of the block.

    If the block ends with an error, each of them is told before.
    """
    with ExitStack() as stack:
        loggers: list[MetricLogger] = []
        for make in factories:
            with user_parts.explained(make if isinstance(make, type) else None):
                loggers.append(make(run))
            stack.callback(loggers[-1].close)
        try:
            yield loggers
        except BaseException as error:
            for logger in loggers:
                logger.failed(error)
            raise
