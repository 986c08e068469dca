"""Sweeps on datasets that are given by name: their runs are found when the dataset is gone, and only then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ape_cli.data.loader import open_dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.experiment.choice import find_dataset
from ape_cli.runs.registry import open_registry
from ape_cli.sweep.durations import PastRuns
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
    gone, there = (
        find_dataset(ExperimentSpec(preset="tiny", scheme="none", data=Path(folder)), Path("datasets"), past.datasets)
        for folder in ("datasets/mine", "moved")
    )
    assert gone.missing
    assert not there.missing
    left = {"folder", "missing", "manifest", "plan"}
    assert {k: v for k, v in vars(gone).items() if k not in left} == {
        k: v for k, v in vars(there).items() if k not in left
    }
    assert gone.plan.source_order == "breadth"
    assert gone.plan.model_dump(exclude={"shard_rows"}) == there.plan.model_dump(exclude={"shard_rows"})


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
    assert "no such dataset" in ape("report", "--sweep", "mine.toml", code=1)[1]


BOUNDED = ["--scheme", "tree", "--data", "mine", "--preset", "tiny", "--device", "cpu"]
STEPS = ["--set", "steps=4", "--set", "validate_every_steps=2"]


def test_the_size_of_a_bounded_scheme_is_known_without_the_dataset(here: Path) -> None:
    """Runs tell it. Without such a run, the trial has no name yet."""
    write(Path("datasets/mine"), "tree-rotate", "depth", depth_mean=2, depth_std=1, rows=(40, 10, 10))
    Path("mine.toml").write_text(SWEEP.replace('"none"', '"tree"'))
    ape("train", *BOUNDED, *STEPS)
    (run,) = json.loads(ape("runs", "--json")[0])
    about = json.loads(Path("results", "runs", run["run"], "run.json").read_text())
    deepest = max(open_dataset("datasets/mine").split("train").table()["size"].to_pylist())
    assert about["config"]["max_size"] == deepest
    assert about["dataset"]["largest"] == {"tree(2)": deepest}
    assert "max_size" not in run["variant"]
    shutil.move("datasets/mine", "moved")
    assert "0 trained now" in ape("sweep", "mine.toml", *ONE)[0]
    (planned,) = json.loads(ape("sweep", "mine.toml", "--dry-run", "--json")[0])["trials"]
    assert (planned["run"], planned["state"]) == (run["run"], "finished")
