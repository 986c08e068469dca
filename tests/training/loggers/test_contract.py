"""Metric loggers: what each of them receives, and that it is always closed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from ape_cli import experiment
from ape_cli.core import plugins
from ape_cli.core.errors import RunError, UsageError
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.training import loggers, trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loggers import LoggedRun, MetricLogger, is_validation
from ape_cli.training.loggers._rules import RULES
from ape_cli.training.trainer import Stopped
from tests.conftest import ape

CPU = torch.device("cpu")


class Recorder(MetricLogger):
    """A logger that keeps what it receives."""

    def __init__(self, run: LoggedRun) -> None:
        self.run, self.closed = run, 0
        self.lines: list[tuple[int, dict[str, float]]] = []
        self.errors: list[BaseException] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert not self.closed
        self.lines.append((step, dict(metrics)))

    def failed(self, error: BaseException) -> None:
        assert not self.closed
        self.errors.append(error)

    def close(self) -> None:
        self.closed += 1


def train(data: Dataset, where: Path, existing: ExistingRun = ExistingRun.REFUSE, **given: Any) -> list[Recorder]:
    """Train 25 steps with two loggers; a validation at every tenth step."""
    settings = {"steps": 25, "validate_every_steps": 10} | given.pop("settings", {})
    chosen = ExperimentSpec(preset="tiny", scheme="rope", set=settings).config("sequence")
    made: list[Recorder] = []

    def make(run: LoggedRun) -> Recorder:
        made.append(Recorder(run))
        return made[-1]

    try:
        trial.run_trial(
            experiment.of(chosen, data),
            open_registry(where),
            Execution(CPU, loggers=[make, make], **given),
            existing=existing,
        )
    except (Stopped, RunError) as error:
        made[0].error = error  # type: ignore[attr-defined]
    return made


def test_loggers_keep_every_rule() -> None:
    """Those for which nothing else has to be installed, and nothing has to be reached."""
    kept = [name for name in loggers.names() if plugins.load(loggers, name, MetricLogger).needs is None]
    assert kept == ["json-lines"]
    for name in kept:
        for rule in RULES.values():
            rule(loggers.load(name))


def test_each_logger_gets_steps_and_validations_and_is_closed_once(words: Dataset, tmp_path: Path) -> None:
    one, other = train(words, tmp_path)
    assert one.lines == other.lines
    assert one.closed == other.closed == 1
    assert one.errors == []
    assert [(step, is_validation(metrics)) for step, metrics in one.lines] == [
        *[(10, True), (10, False)],
        *[(20, True), (20, False)],
        *[(25, True), (25, False)],
    ]
    (run,) = open_registry(tmp_path)
    validations = [{"step": step, **metrics} for step, metrics in one.lines if is_validation(metrics)]
    assert validations == run.history().to_dicts()
    assert set(one.lines[1][1]) == {"recent_loss", "recent_token_accuracy", "tokens_per_second"}
    assert (one.run.name, one.run.steps, one.run.step, list(one.run.history)) == (run.name, 25, 0, [])


def test_the_recent_loss_is_that_of_the_steps_since_the_last_time(words: Dataset, tmp_path: Path) -> None:
    """The loss since the last validation is a mean of the losses in between, weighted by their labels."""
    one, _ = train(words, tmp_path, settings={"steps": 20, "validate_every_steps": 20})
    (whole,) = (metrics["loss"] for _, metrics in one.lines if is_validation(metrics))
    first, second = (metrics["recent_loss"] for _, metrics in one.lines if not is_validation(metrics))
    assert first != second
    assert min(first, second) < whole < max(first, second)


def test_a_resumed_run_tells_where_it_goes_on(words: Dataset, tmp_path: Path) -> None:
    asked = iter(range(100))
    first, _ = train(words, tmp_path, stop=lambda: next(asked) == 13)
    assert isinstance(first.error, Stopped)  # type: ignore[attr-defined]
    assert (first.errors, first.closed) == ([first.error], 1)  # type: ignore[attr-defined]
    second, _ = train(words, tmp_path, ExistingRun.RESUME)
    assert second.run.step == 14
    assert [row["step"] for row in second.run.history] == [10]
    assert [step for step, metrics in first.lines + second.lines if is_validation(metrics)] == [10, 20, 25]


def test_loggers_learn_the_error_and_are_closed_if_the_run_fails(words: Dataset, tmp_path: Path) -> None:
    made = train(words, tmp_path, settings={"lr_peak": 1e30, "lr_initial": 1e30})
    error = made[0].error  # type: ignore[attr-defined]
    assert isinstance(error, RunError)
    assert [(logger.errors, logger.closed) for logger in made] == [([error], 1), ([error], 1)]


def test_a_logger_that_is_unknown_or_cannot_be_used(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(loggers.names()) >= {"json-lines", "tensorboard"}
    words = ("--preset", "tiny", "--device", "cpu")
    assert "did you mean 'tensorboard'" in ape("train", "--scheme", "rope", "--log", "tensorbord", *words, code=2)[1]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"tensorboard is not installed[\s\S]*pip install"):
        loggers.load("tensorboard")
    assert list(here.iterdir()) == []
