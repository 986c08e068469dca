"""Weights & Biases, offline: every metric of a run is passed to its library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.training.loggers import LoggedRun, opened
from ape_cli.training.loggers.wandb import WeightsAndBiases
from tests.conftest import ape

wandb = pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
SIZES = ("--preset", "tiny", "--device", "cpu", "--set", "steps=20", "--set", "validate_every_steps=5")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_PROJECT", "WANDB_DIR", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of all calls of `log` and `finish` of a run of wandb, which still does what they ask for."""
    made: list[tuple[Any, ...]] = []
    for name in ("log", "finish"):
        real = getattr(wandb.Run, name)

        def call(self: Any, *given: Any, real: Any = real, **options: Any) -> Any:
            made.append((*given, *options.values()))
            return real(self, *given, **options)

        monkeypatch.setattr(wandb.Run, name, call)
    return made


def test_every_metric_is_logged(here: Path, calls: list[tuple[Any, ...]]) -> None:
    """The metrics of a validation, and the recent ones, are two calls for the same step. The last call ends the run."""
    ape("train", "--scheme", "none", "--task", "copy", "--log", "wandb", *SIZES)
    (run,) = open_registry("results")
    assert list((here / "results" / "runs" / run.name / "logs" / "wandb").glob("offline-run-*"))
    assert calls.pop() == (0,)
    assert [{"step": step} | row for row, step in calls if "loss" in row] == run.history().to_dicts()
    assert [step for row, step in calls if "recent_loss" in row] == [10, 20]


def test_a_failed_run_is_marked_as_failed(tmp_path: Path, calls: list[tuple[Any, ...]]) -> None:
    run = LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, ())
    with pytest.raises(ZeroDivisionError), opened([WeightsAndBiases], run):
        raise ZeroDivisionError
    assert calls == [(1,)]


def test_a_resumed_run_continues_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    ids = []
    for step in (0, 20, 0):
        logger = WeightsAndBiases(
            LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, (), step)
        )
        ids.append(logger.run.id)
        assert logger.run.project == "mine"
        logger.log(step + 10, {"recent_loss": 1.0})
        logger.close()
    assert ids[0] == ids[1] != ids[2]  # the last one is of a run that was overwritten
