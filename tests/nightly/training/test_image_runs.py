"""Runs on images whose pixels are shuffled."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from ape_cli.evaluation import evaluate
from tests.training.test_image_runs import CPU, run, write


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
