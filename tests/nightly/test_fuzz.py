"""Files with changed bytes, one kind for each door: nothing changes silently, and nothing ends in a traceback.

A changed file (a manifest, a shard, scores, a history, weights) has the same content, is refused, or is left out and
named. Changes are always the same: 24 of each kind, or as many as APE_FUZZ says (`make fuzz`).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import ape_cli
from ape_cli import experiment
from ape_cli.cli import app
from ape_cli.core.errors import ApeError
from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.sharing.exported import export
from ape_cli.experiment import ExperimentSpec
from ape_cli.runs.registry import open_registry
from ape_cli.training import trial
from ape_cli.training.execution import Execution
from tests.conftest import write

CHANGES = int(os.environ.get("APE_FUZZ", "24"))


def changed(content: bytes, chosen: random.Random) -> bytes:
    """A copy with a flipped bit, or with a part that is repeated or left out."""
    at, end = sorted(chosen.randrange(len(content)) for _ in range(2))
    match chosen.randrange(3):
        case 0:
            return content[:at] + bytes([content[at] ^ 1 << chosen.randrange(8)]) + content[at + 1 :]
        case 1:
            return content[:end] + content[at:]
        case _:
            return content[:at] + content[end:]


def ape(*words: str) -> tuple[str, str]:
    """Runs a command in this process and returns its stdout and stderr. Raises `ApeError` if it ends with an error."""
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code:
        raise ApeError(result.stderr)
    return result.stdout, result.stderr


def train(where: Path) -> trial.Trial:
    """Trains a tiny run in `where`/results on the dataset `where`/data."""
    settings = {"steps": 4, "validate_every_steps": 2, "d_model": 8, "d_ff": 8}
    wanted = ExperimentSpec(preset="tiny", scheme="rope", seed=1, set=settings).config("sequence")
    setup = experiment.of(wanted, open_dataset(where / "data"))
    return trial.run_trial(setup, open_registry(where / "results"), Execution(torch.device("cpu")))


def finished(where: Path) -> None:
    write(where / "data", "reverse", rows=(24, 8, 8))
    train(where)


def exported(where: Path) -> None:
    finished(where)
    export(next(iter(open_registry(where / "results"))), where / "out")


def dataset(where: Path) -> Any:
    """Its rows and what decides runs. Neither the versions, the means nor the overlap do."""
    data = open_dataset(where / "data")
    manifest = data.manifest.model_dump(exclude={"versions", "mean_size", "mean_tokens", "overlap", "overlap_sizes"})
    return manifest, [data.split(name).table().to_pylist() for name in ("train", "validation", "test")]


def report(where: Path) -> Any:
    """The scores by epoch and by size; None if something is left out and named."""
    options = ("--format", "csv", "--results", str(where / "results"))
    views = [ape("report", "--by", by, *options) for by in ("size", "epoch")]
    return None if any("left out" in err for _, err in views) else [out for out, _ in views]


def weights(where: Path) -> Any:
    (run,) = open_registry(where / "results")
    return {name: value.tolist() for name, value in run.load_model().items()}


def loaded(where: Path) -> Any:
    return ape_cli.load(where / "out").predict(["a b c", "d"], max_tokens=4)


def operators(where: Path) -> None:
    write(where / "data", "tree-ops", "breadth", rows=(24, 8, 8))


# What writes files of a kind, the pattern of those that change, and what reads them
DOORS: dict[str, tuple[Callable[[Path], object], str, Callable[[Path], Any]]] = {
    "manifest": (operators, "manifest.json", dataset),
    "shards": (operators, "*.parquet", dataset),
    "scores": (finished, "*test-teacher.json", report),
    "history": (finished, "history.parquet", report),
    "weights": (finished, "model.safetensors", weights),
    "exported weights": (exported, "out/model.safetensors", loaded),
}


@pytest.mark.parametrize("name", DOORS)
def test_no_changed_file_is_silent_or_a_traceback(name: str, tmp_path: Path) -> None:
    (make, pattern, read), whole, work = DOORS[name], tmp_path / "whole", tmp_path / "work"
    whole.mkdir()
    make(whole)
    shutil.copytree(whole, work)
    before = read(work)
    refused = 0
    for number in range(CHANGES):
        shutil.rmtree(work)
        shutil.copytree(whole, work)
        chosen = random.Random(f"{name} {number}")
        path = chosen.choice(sorted(work.rglob(pattern)))
        path.write_bytes(changed(path.read_bytes(), chosen))
        try:
            assert read(work) in (None, before), f"a silent change: {number}"
        except ApeError:
            refused += 1
    assert refused or name in ("scores", "history")
