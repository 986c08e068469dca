"""A run resumes although its epochs have different numbers of batches."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ape_cli import experiment
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.loop import Stopped
from tests.conftest import uneven_windows, write
from tests.runs.test_registry import CPU, resolve, stopping_after


def test_resume_although_epochs_have_different_numbers_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows of an epoch depend on the order of its blocks, and the last batch of each may be short."""
    uneven_windows(monkeypatch)
    data = write(tmp_path / "data", "reverse", rows=(280, 8, 8))  # blocks of 64, 64, 64, 64 and 24 rows
    wanted = resolve(seed=2, batch_size=100, steps=26, validate_every_steps=13)
    batches = [data.split("train").steps(100, wanted.seed, epoch) for epoch in range(6)]
    assert set(batches) == {4, 5}
    assert batches == [len(list(data.split("train").batches(100, wanted.seed, epoch=epoch))) for epoch in range(6)]

    def trained(where: Path, stop: int) -> dict[str, Any]:
        execution = Execution(CPU, stop=stopping_after(stop))
        registry = open_registry(where)
        with suppress(Stopped):
            trial.run_trial(experiment.of(wanted, data), registry, execution)
        whole = Execution(CPU)
        done = trial.run_trial(experiment.of(wanted, data), registry, whole, existing=ExistingRun.RESUME)
        return {name: value.tolist() for name, value in done.run.load_model().items()}

    straight = trained(tmp_path / "straight", 100)
    for stop in (7, 14, 20, 25):
        assert trained(tmp_path / str(stop), stop) == straight
