"""Estimates of the time of a trial: what they count, and what they rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.experiment import ExperimentSpec, resolve
from ape_cli.experiment.choice import find_dataset
from ape_cli.models import speed
from ape_cli.runs.config import PRESETS
from ape_cli.runs.registry import open_registry
from ape_cli.sweep import durations
from tests.conftest import ape
from tests.registered import edit

DRY = ["--device", "cpu", "--dry-run"]


@pytest.fixture
def one_gflops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with products of 1 GFLOP/s, whatever their width."""
    monkeypatch.setattr(speed, "layer", lambda *_: 1.0)


def counted(task: str, **options: Any) -> float:
    """The multiplications of a row, for the preset tiny."""
    request = ExperimentSpec(preset="tiny", scheme="none", task=task, **options)
    found = resolve(request, find_dataset(request, Path("datasets")))
    return durations.multiplications(found.config, found.data)


def planned(*words: str) -> list[dict[str, Any]]:
    """The trials of a sweep of one scheme that is not run."""
    given = ["--schemes", "none", "--preset", "tiny", *words, *DRY, "--json"]
    return list(json.loads(ape("sweep", *given)[0])["trials"])


def test_multiplications_are_counted_by_hand(here: Path) -> None:
    """Words of 6 symbols and EOS are 7 tokens of width 32, with 64 hidden channels, in one layer each."""
    projections, hidden, scores = 4 * 7 * 32 * 32, 2 * 7 * 32 * 64, 2 * 7 * 7 * 32
    layer, between = projections + hidden + scores, projections + scores
    assert counted("copy") == 2 * layer + between
    assert counted("copy", model="decoder") == 2 * (2 * projections + 2 * hidden + 4 * scores)
    assert counted("copy", set={"encoder_layers": 3}) == 4 * layer + between
    wider = {"d_ff_decoder": 3 * 64}
    assert counted("copy", set=wider) == 2 * layer + between + 2 * hidden
    assert counted("copy", model="decoder", set=wider) == 2 * (2 * projections + 2 * hidden + 4 * scores) + 4 * hidden
    # 8 x 8 pixels of one channel, a convolution of 3 x 3, and 16 tokens
    assert counted("images") == 64 * 9 * 32 + 16 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 16 * 16 * 32


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_time(here: Path, preset: str) -> None:
    for task in ("copy,tree-copy", "images") if PRESETS[preset].image else ("copy,tree-copy",):
        out, _ = ape("sweep", "--schemes", "rope,none", "--tasks", task, "--preset", preset, *DRY)
        assert "?" not in out
        assert "estimated from the size of the model (usually within a factor of 3)" in " ".join(out.split())
    assert not list(here.iterdir())


@pytest.mark.usefixtures("one_gflops")
def test_the_size_of_the_model_gives_a_time(here: Path) -> None:
    """20 steps of 16 rows: the products of three passes, two operations each, and a fixed time for both layers."""
    (trial,) = planned("--tasks", "copy")
    expected = 20 * (2 * 2.5e-3 + 3 * 2 * 16 * counted("copy") / 0.35e9)
    assert (trial["seconds"], trial["estimated_from"]) == (pytest.approx(expected), "the size of the model")
    (longer,) = planned("--tasks", "copy", "--set", "steps=400")
    assert longer["seconds"] == pytest.approx(20 * expected)


@pytest.mark.usefixtures("one_gflops")
def test_runs_of_other_models_correct_it(here: Path) -> None:
    """A run that took three times its estimate triples that of other models, on this machine alone."""
    wide = ["--tasks", "copy", "--set", "d_model=64"]
    (before,) = planned(*wide)
    ape("train", "--scheme", "none", "--task", "copy", "--preset", "tiny", "--device", "cpu", "--no-eval")
    (run,) = open_registry("results")
    (own,) = planned("--tasks", "copy", "--results", "elsewhere")
    file = Path(str(run.folder)) / "run.json"
    edit(file, lambda about: about["result"].update(seconds=3 * own["seconds"]))
    (after,) = planned(*wide)
    assert after["seconds"] == pytest.approx(3 * before["seconds"])
    assert after["estimated_from"] == "registered runs of other models"
    edit(file, lambda about: about["processor"].update(name="another"))
    (elsewhere,) = planned(*wide)
    assert (elsewhere["seconds"], elsewhere["estimated_from"]) == (before["seconds"], "the size of the model")


def test_without_the_gpu_of_a_cluster_the_time_is_unknown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    found = durations.PastRuns(open_registry("results"), "cuda")
    request = ExperimentSpec(preset="tiny", scheme="none", task="copy")
    known = resolve(request, find_dataset(request, Path("datasets")))
    assert found.estimate(known.config, known.data) is None
