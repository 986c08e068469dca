"""TensorBoard: its own reader finds every metric of a run in the event files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.storage.paths import storage_path
from ape_cli.training.loggers import LoggedRun
from ape_cli.training.loggers.tensorboard import TensorBoard
from tests.conftest import ape

pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by name."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_a_run_as_tensorboard_reads_it(here: Path) -> None:
    words = ("train", "--scheme", "rope", "--task", "copy", "--preset", "tiny", "--log", "tensorboard")
    ape(*words, "--set", "steps=20", "--set", "validate_every_steps=5")
    (run,) = open_registry("results")
    found = scalars(here / "results" / "runs" / run.name / "logs" / "tensorboard")
    history = run.history()
    assert set(found) == {*history.columns, "recent_loss", "recent_token_accuracy", "tokens_per_second"} - {"step"}
    for name in ("loss", "validation_token_accuracy", "lr"):
        expected = list(zip(history["step"], history[name], strict=True))
        assert found[name] == [(step, pytest.approx(value, rel=1e-6)) for step, value in expected], name
    assert [step for step, _ in found["recent_loss"]] == [10, 20]


def test_a_resumed_run_hides_what_was_logged_after_its_stored_state(tmp_path: Path) -> None:
    for begin, steps, value in ((0, (10, 20, 30), 1.0), (20, (30, 40), 2.0)):
        logger = TensorBoard(
            LoggedRun("run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), tmp_path, 40, (), begin)
        )
        for step in steps:
            logger.log(step, {"recent_loss": value})
        logger.close()
    assert scalars(tmp_path / "tensorboard") == {"recent_loss": [(10, 1.0), (20, 1.0), (30, 2.0), (40, 2.0)]}


def test_an_object_store_is_refused() -> None:
    run = LoggedRun(
        "run", ExperimentSpec(preset="tiny", scheme="rope").config("sequence"), storage_path("s3://bucket/logs"), 40, ()
    )
    with pytest.raises(UsageError, match=r"object store[\s\S]*json-lines"):
        TensorBoard(run)
