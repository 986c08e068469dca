"""Runs of every kind of attention that are stopped and resumed, and a user's own kind in a process of its own."""

from __future__ import annotations

import pytest

from ape_cli import experiment
from ape_cli.data.loader import Dataset
from tests.attention.test_choice import ALL, resolve
from tests.training.test_trainer import check_resume


@pytest.mark.parametrize("kind", ALL)
def test_a_stopped_run_ends_as_if_it_had_not_stopped(words: Dataset, kind: str) -> None:
    check_resume(experiment.complete(resolve(kind), words), words)
