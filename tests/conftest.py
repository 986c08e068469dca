"""Shared by all tests: tiny datasets, and one setting of torch."""

from __future__ import annotations

import dataclasses
import os
import signal

os.environ["OMP_NUM_THREADS"] = "1"  # also of processes that tests start: tiny models gain nothing from more

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from ape_cli import tasks
from ape_cli.cli import app
from ape_cli.data import generation
from ape_cli.data.loader import Dataset, open_dataset
from ape_cli.runs import filters
from ape_cli.runs.registry import Registry

# a process of pytest-xdist ignores Ctrl-C, and so would all that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)


# The slowest files, slowest first. Two processes take whole files in this order: a slow one must not come last.
SLOW = (
    "test_sweep",
    "test_laws",
    "test_cli",
    "test_ray",
    "test_loop",
    "test_data_parallel",
    "test_gpu_command",
    "test_image_runs",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first; the others keep their order."""
    items.sort(key=lambda item: SLOW.index(item.path.stem) if item.path.stem in SLOW else len(SLOW))


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


SMALL: dict[str, Any] = {  # sizes, each for the tasks that have them
    "length_mean": 7,
    "length_std": 2,
    "depth_mean": 3,
    "depth_std": 1,
    "side_mean": 3,
    "side_std": 1,
    "ring": 5,
}


def write(folder: Path, task: str, order: str | None = None, *, rows: tuple[int, int, int] = (120, 40, 40), **options):
    """A tiny dataset on disk."""
    known = {f.name for f in dataclasses.fields(tasks.load(task))}
    made = tasks.make(task, order, **{**{k: v for k, v in SMALL.items() if k in known}, **options})
    wanted = generation.plan(
        made, seed=7, rows=dict(zip(("train", "validation", "test"), rows, strict=True)), shard_rows=64
    )
    generation.generate(made, wanted, folder)
    return open_dataset(folder)


def registry_of(where: Path, preset: str | None = None) -> Registry:
    """The runs in a folder, those of one preset if it is named."""
    return Registry(where).where(filters.make(None, None, [preset] if preset else None))


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
    """`ape` in a process of its own, in `root`, with one more file of somebody's own on the path."""
    file = root / "mine" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "mine"), str(Path(__file__).parents[1])])}

    def ape(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ape_cli", *words]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done

    return ape


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, as the one that commands are given in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ape(*words: str, code: int = 0) -> tuple[str, str]:
    """A command, in this process; its stdout and stderr."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.stderr + result.stdout
    return result.stdout, result.stderr
