"""A run resumes where epochs have different numbers of batches, and on a copy of its dataset with other shards."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ape_cli import experiment, tasks
from ape_cli.data import generation, loader
from ape_cli.data.loader import open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Stopped
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


def test_resume_on_a_copy_with_other_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has the same name there, and ends with the same weights."""
    monkeypatch.setattr(loader, "ROW_GROUP", 100)
    task = tasks.make("reverse", length_mean=7, length_std=2)
    copies = []
    for shard_rows in (280, 33):
        plan = generation.plan(task, seed=7, rows={"train": 280, "validation": 8, "test": 8}, shard_rows=shard_rows)
        generation.generate(task, plan, tmp_path / str(shard_rows))
        copies.append(open_dataset(tmp_path / str(shard_rows)))
    wanted = resolve(seed=2, batch_size=30, steps=26, validate_every_steps=13)
    weights = []
    for first in copies:
        registry = open_registry(tmp_path / f"results-{first.name}")
        with suppress(Stopped):
            trial.run_trial(experiment.of(wanted, first), registry, Execution(CPU, stop=stopping_after(14)))
        resumed = experiment.of(wanted, copies[0])
        done = trial.run_trial(resumed, registry, Execution(CPU), existing=ExistingRun.RESUME)
        weights.append({name: value.tolist() for name, value in done.run.load_model().items()})
    assert weights[0] == weights[1]
