"""A run resumes where epochs have different numbers of batches, and on a copy of its dataset with other shards."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ape_cli import experiment, tasks
from ape_cli.data import generation, loader
from ape_cli.data.loader import open_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution, ExistingRun
from ape_cli.training.trainer import Stopped
from tests.runs.test_registry import CPU, resolve, stopping_after


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
