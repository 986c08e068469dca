"""Fixtures and helpers that all tests share: tiny datasets, the `ape` command, and the number of threads."""

from __future__ import annotations

import dataclasses
import gc
import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # processes that tests start inherit it; more threads do not help tiny models

import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from ape_cli import tasks
from ape_cli.cli import app
from ape_cli.core.executors import local
from ape_cli.data import generation, loader
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.experiment import ExperimentSpec
from ape_cli.sweep import combinations, specification
from tests import forks

ROOT = Path(__file__).parents[1]

# pytest-xdist workers ignore Ctrl-C, and the processes that tests start would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Collects garbage less often, and never examines what was imported before the first test.

    Measured in ten pairs of runs, this saves a tenth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


@pytest.fixture(autouse=True)
def _no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text in a pipe has its usual width: pytest-xdist sets COLUMNS in its workers."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module")
def forked_workers() -> Iterator[None]:
    """Forks the workers of sweeps, which saves a second for each of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "multiprocessing", SimpleNamespace(get_context=forks.worker_context))
        yield


SMALL: dict[str, Any] = {  # small values of size options; each task takes the options that it has
    "length_mean": 7,
    "length_std": 2,
    "depth_mean": 3,
    "depth_std": 1,
    "side_mean": 3,
    "side_std": 1,
    "ring": 5,
}


def write(folder: Path, task: str, order: str | None = None, *, rows: tuple[int, int, int] = (120, 40, 40), **options):
    """Writes a tiny dataset of a task to a folder and opens it."""
    known = {f.name for f in dataclasses.fields(tasks.load(task))}
    made = tasks.make(task, order, **{**{k: v for k, v in SMALL.items() if k in known}, **options})
    wanted = generation.plan(
        made, seed=7, rows=dict(zip(("train", "validation", "test"), rows, strict=True)), shard_rows=64
    )
    generation.generate(made, wanted, folder)
    return open_dataset(folder)


def uneven_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks of 64 rows and windows of up to 130, so that epochs have different numbers of batches."""
    monkeypatch.setattr(loader, "ROW_GROUP", 64)
    monkeypatch.setattr(loader.Rows, "_room", 130)


def grid_of(fields: dict[str, Any]) -> specification.SweepSpec:
    """The grid with these fields, as a sweep reads it."""
    (grid,) = specification.read(None, specification.layer(fields))
    return grid


def points_of(grids: list[specification.SweepSpec]) -> list[ExperimentSpec]:
    """Returns the trials of grids, at preset tiny."""
    return combinations.first_stage(combinations.groups(grids, "tiny"))


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("words") / "reverse", "reverse")


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("trees") / "tree-rotate", "tree-rotate", "breadth")


@pytest.fixture(scope="session")
def grids(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("grids") / "grid-rotate", "grid-rotate")


@pytest.fixture(scope="session")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("rings") / "ring-shift", "ring-shift")


@pytest.fixture(scope="session")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("operations") / "tree-ops", "tree-ops", "depth")


def elsewhere(root: Path, path: str, text: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Returns a function that runs `ape` in a new process in `root`, with one user file added to PYTHONPATH."""
    file = root / "mine" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "mine"), str(ROOT)])}

    def ape(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = forks.run(words, root, environment)
        assert done.returncode == code, done.stderr
        return done

    return ape


def load_file(path: Path) -> ModuleType:
    """Imports a Python file that is in no package, such as `tools/reference.py`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_trees(folder: Path) -> None:
    """Writes twelve JSON documents of different shapes into a new folder, as a source of `ape gen trees`."""
    folder.mkdir()
    for number in range(12):
        document = {"a": list(range(number)), "b": number}
        (folder / f"{number}.json").write_text(json.dumps(document))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ape(*words: str, code: int = 0) -> tuple[str, str]:
    """Runs an `ape` command in this process and returns its stdout and stderr."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.stderr + result.stdout
    return result.stdout, result.stderr
