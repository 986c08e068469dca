"""Runs of every kind of attention that are stopped and resumed, and a user's own kind in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.reports import aggregation, tables
from ape_cli.reports.views import Options
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests.attention.test_choice import ALL, CPU, resolve
from tests.training.test_trainer import check_resume


def test_tables_tell_kinds_apart(words: Dataset, tmp_path: Path) -> None:
    found = open_registry(tmp_path)
    for kind, settings in (("dot", {}), ("linear", {}), ("clustered", {}), ("clustered", {"clusters": 3})):
        wanted = ExperimentSpec(preset="tiny", scheme="rope", attention=kind, set=settings).config("sequence")
        trial.run_trial(experiment.of(wanted, words), found, Execution(CPU))
    lines = aggregation.lines(found, Options())
    (shown,) = tables.tables(lines)
    assert [row for row, _ in shown.rows] == [
        "rope",
        "rope (attention=clustered)",
        "rope (attention=clustered, clusters=3)",
        "rope (attention=linear)",
    ]
    assert sorted(lines["attention"]) == ["clustered", "clustered", "dot", "linear"]


@pytest.mark.parametrize("kind", ALL)
def test_a_stopped_run_ends_as_if_it_had_not_stopped(words: Dataset, kind: str) -> None:
    check_resume(experiment.complete(resolve(kind), words), words)
