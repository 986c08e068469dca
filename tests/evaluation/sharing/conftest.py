"""Exported models of small runs on words, trees and images, which several files of tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ape_cli
from ape_cli import experiment
from ape_cli.data.loader import Dataset
from ape_cli.evaluation.sharing import exported
from ape_cli.evaluation.sharing.trained_model import TrainedModel
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests.conftest import write
from tests.runs.test_registry import run

CPU = torch.device("cpu")
Both = tuple[Run, TrainedModel]


def exported_and_loaded(data: Dataset, where: Path, **options: object) -> Both:
    """A run that was trained for four steps, and the model that is loaded from its export."""
    done = run(data, where / "results", **options).run
    exported.export(done, where / "out")
    return done, ape_cli.load(where / "out")


@pytest.fixture(scope="session")
def of_words(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return exported_and_loaded(words, tmp_path_factory.mktemp("words"), scheme="t5", steps=60)


@pytest.fixture(scope="session")
def of_trees(trees: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Both:
    return exported_and_loaded(trees, tmp_path_factory.mktemp("trees"), scheme="orthogonal-tree")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("pictures") / "digits", "images", source="digits")


@pytest.fixture(scope="session")
def of_pictures(pictures: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Both:
    where = tmp_path_factory.mktemp("pictures")
    chosen = ExperimentSpec(preset="tiny", scheme="rope", set={"steps": 2}).config("image")
    done = trial.run_trial(experiment.of(chosen, pictures), open_registry(where / "results"), Execution(CPU)).run
    exported.export(done, where / "out")
    return done, ape_cli.load(where / "out")
