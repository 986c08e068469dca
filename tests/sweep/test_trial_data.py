"""Sweeps on datasets that are given by name: their runs are found when the dataset is gone, and only then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ape_cli.runs.registry import open_registry
from ape_cli.sweep import trial_data
from ape_cli.sweep.past_runs import PastRuns
from tests.conftest import ape, write

SWEEP = 'preset = "tiny"\nschemes = ["none"]\ndata = ["mine"]\nset = { steps = 4, validate_every_steps = 2 }\n'
ONE = ["--device", "cpu", "--workers", "1", "--threads", "1"]


def train() -> None:
    """The only run of the sweep, without the processes of a sweep."""
    settings = ["--set", "steps=4", "--set", "validate_every_steps=2"]
    ape("train", "--scheme", "none", "--data", "mine", "--preset", "tiny", *settings, "--device", "cpu")


@pytest.fixture
def gone(here: Path) -> Path:
    """A sweep on a dataset that was deleted when the sweep was complete."""
    write(Path("datasets/mine"), "tree-rotate", "depth", source_order="breadth", rows=(40, 10, 10))
    Path("mine.toml").write_text(SWEEP)
    train()
    shutil.move("datasets/mine", "moved")
    return here


def test_runs_are_reported_without_their_dataset(gone: Path) -> None:
    out, _ = ape("report", "--sweep", "mine.toml", "--format", "csv")
    shutil.move("moved", "datasets/mine")
    assert out == ape("report", "--sweep", "mine.toml", "--format", "csv")[0]
    assert "none" in out


def test_the_facts_are_those_of_the_dataset(gone: Path) -> None:
    """Each fact that decides the name of a run is the same, from the record of a run and from the manifest."""
    past = PastRuns(open_registry("results"))
    known, there = trial_data.given(Path("datasets/mine"), past), trial_data.given(Path("moved"), past)
    assert known.missing
    assert known.remembered
    assert not there.remembered
    left = {"folder", "missing", "remembered", "plan"}
    assert {k: v for k, v in vars(known).items() if k not in left} == {
        k: v for k, v in vars(there).items() if k not in left
    }
    assert known.plan.source_order == "breadth"
    assert known.plan.model_dump(exclude={"shard_rows"}) == there.plan.model_dump(exclude={"shard_rows"})


def test_nothing_is_trained_on_a_dataset_that_is_gone(gone: Path) -> None:
    assert "0 trained now" in ape("sweep", "mine.toml", *ONE)[0]
    err = ape("sweep", "mine.toml", "--schemes", "none,rope", *ONE, code=1)[1]
    assert "no such dataset\n  got:     mine\n" in err
    assert len(list(open_registry("results"))) == 1
    assert list(Path("datasets").iterdir()) == []


def test_a_name_that_two_datasets_had_does_not_tell_which_one(gone: Path) -> None:
    write(Path("datasets/mine"), "copy", rows=(40, 10, 10))
    train()
    assert len(list(open_registry("results"))) == 2
    shutil.rmtree("datasets/mine")
    assert "cannot be found without its data" in ape("report", "--sweep", "mine.toml", code=1)[1]
