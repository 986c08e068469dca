"""Runs on images end to end: a sweep, and shuffled pixels."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from tests.conftest import ape
from tests.training.test_image_runs import CPU, SIZES, run, write

pytestmark = pytest.mark.usefixtures("forked_workers")


def test_shuffled_pixels_are_nothing_to_none_and_all_to_others(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained on images with a token for each pixel, and evaluated on the same images with shuffled pixels."""
    shuffled = write(tmp_path / "shuffled", monkeypatch, shuffled=True)
    pixels = {"convolution_size": 1, "pool_size": 1, "pool_stride": 1, "steps": 150, "lr_peak": 0.01}
    for scheme in ("none", "sinusoidal", "orthogonal-grid"):
        done = run(data, tmp_path / "results", scheme, **pixels)
        other = evaluate.evaluate(done.run, shuffled, split="test", decode="teacher", device=CPU)["overall"]
        assert done.evaluation is not None
        own = done.evaluation["overall"]
        if scheme == "none":
            assert other["token_accuracy"] == own["token_accuracy"]
            assert other["cross_entropy"] == pytest.approx(own["cross_entropy"], abs=1e-5)
        else:
            assert own["token_accuracy"] > 0.8
            assert other["token_accuracy"] < own["token_accuracy"] - 0.3


def test_from_digits_to_a_table(here: Path) -> None:
    ape("gen", "images", "--source", "digits", "--n", "100")
    small = [f"--set={k}={v}" for k, v in (SIZES | {"steps": 2}).items()]
    told = ape("train", "--scheme", "orthogonal-grid", "--preset", "tiny", *small)[1]
    assert "images-digits" in told
    sweep = ["sweep", "--schemes", "sinusoidal,learned", "--data", "images-digits", "--preset", "tiny", *small]
    assert "2 trained now" in ape(*sweep)[0]
    assert "0 trained now" in ape(*sweep)[0]
    assert "orthogonal-grid" in ape("report", "--format", "markdown")[0]
    assert "leave `--decode` out" in ape("eval", "--decode", "greedy", "--data", "images-digits", code=2)[1]
    ape("gen", "images", "--shuffled", "--n", "100")
    assert "accuracy" in ape("eval", "--data", "images-digits-shuffled")[0]
    assert "images is not a task on trees, so it has no order" in ape("gen", "images", "--order", "depth", code=2)[1]
