"""The rules of metric loggers, of a class. Each is measured on runs of a temporary folder.

They cannot tell whether what a logger writes is right.
"""

from __future__ import annotations

import io
import random
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import torch

from ape_cli.core import user_parts
from ape_cli.core.errors import RunError
from ape_cli.experiment import ExperimentSpec
from ape_cli.training.loggers import LoggedRun, MetricLogger

_RECENT = {"recent_loss": 2.5, "recent_token_accuracy": 0.25, "tokens_per_second": 1e4}
_VALIDATION = {"epoch": 0, "loss": 2.5, "token_accuracy": 0.25, "lr": 1e-3, "seconds": 0.5, "tokens": 5_000}
_VALIDATION |= {"validation_loss": float("inf"), "validation_token_accuracy": 0.25, "kept": True}


def _takes_all(logger_class: type[MetricLogger]) -> None:
    """It takes the metrics of a new run, of a resumed one, and of one that fails, and finite or infinite losses."""
    with tempfile.TemporaryDirectory() as folder:
        _log(logger_class, Path(folder), 0)
        _log(logger_class, Path(folder), 20)
        _log(logger_class, Path(folder), 30, RunError("the loss is no longer finite"))


def _draws_nothing(logger_class: type[MetricLogger]) -> None:
    """It leaves the global random streams alone, from which dropout is drawn."""
    before = _streams()
    with tempfile.TemporaryDirectory() as folder:
        _log(logger_class, Path(folder), 0)
    if _streams() != before:
        what, fix = "a global random stream that was drawn from or seeded", "use a generator of your own"
        raise user_parts.returns(logger_class, "log", what, "no change", fix)


RULES: dict[str, Callable[[type[MetricLogger]], None]] = {
    "metrics": _takes_all,
    "random numbers": _draws_nothing,
}


def _streams() -> tuple[str, ...]:
    """The states of the global random streams."""
    return repr(random.getstate()), repr(np.random.get_state(legacy=False)), repr(torch.get_rng_state().tolist())


def _log(logger_class: type[MetricLogger], folder: Path, start: int, error: BaseException | None = None) -> None:
    """Log a run that begins after the step `start`."""
    rows = [{"step": step, **_VALIDATION} for step in range(10, start + 1, 10)]
    run = LoggedRun(
        "copy-rope-1", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), folder, 40, rows, start
    )
    with redirect_stdout(io.StringIO()), user_parts.explained(logger_class):
        logger = logger_class(run)  # type: ignore[call-arg]
        for step in range(start + 10, 41, 10):
            logger.log(step, dict(_VALIDATION))
            logger.log(step, dict(_RECENT))
            logger.flush()
        if error is not None:
            logger.failed(error)
        logger.close()
