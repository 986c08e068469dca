"""Batches at the presets' sizes have little padding. Whole datasets are generated for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write


@pytest.mark.parametrize(
    ("task", "order"), [("copy", None), ("repeat", None), ("c3", "depth"), ("tree-ops", "breadth")]
)
def test_nine_tokens_in_ten_are_real(tmp_path: Path, task: str, order: str | None) -> None:
    sizes = {"depth_mean": 7, "depth_std": 1} if order else {"length_mean": 100, "length_std": 10}
    data = write(tmp_path / task, task, order, rows=(10_000, 10, 10), **sizes)
    real = padded = 0
    for batch in data.split("train").batches(64, seed=1):
        real += int(batch.source_mask.sum() + batch.label_mask.sum())
        padded += batch.source_mask.numel() + batch.labels.numel()
    assert real / padded > 0.9
