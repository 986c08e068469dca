"""Learning curves, from histories made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ape_cli.core.errors import left_out
from ape_cli.reports.plots import Panel
from ape_cli.reports.views import by_epoch
from ape_cli.runs.registry import Registry
from tests.registered import take_steps, vouch
from tests.reports.test_aggregation import add

# what the history says about training; curves do not show it
TRAINED = {"epoch": 0, "loss": 1.0, "token_accuracy": 0.5, "lr": 0.001, "seconds": 1.0, "tokens": 1000}


def put(
    where: Path,
    scheme: str,
    accuracies: list[float],
    seed: int = 1,
    *,
    test: Sequence[float | None] | None = None,
    **options: object,
) -> Path:
    """A registered run that was validated (and with `test` tested) every 100 steps. A loss is 2 - 2 accuracy."""
    folder = add(where, scheme, 0.5, seed, **options)  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = [
        TRAINED | {"step": 100 * i, "validation_token_accuracy": a, "validation_loss": 2 - 2 * a}
        for i, a in enumerate(accuracies, 1)
    ]
    if test:
        rows = [
            row
            | {
                "test_token_accuracy": a,
                "test_loss": a and 2 - 2 * a,
                "kept": accuracies[i] > max(accuracies[:i], default=-1),
            }
            for i, (row, a) in enumerate(zip(rows, test, strict=True))
        ]
    pl.DataFrame(rows).write_parquet(folder / "history.parquet")
    take_steps(folder, 100 * len(accuracies))
    vouch(folder)
    return folder


def learning(where: Path, metric: str = "token_accuracy") -> list[Panel]:
    with left_out() as bad:
        found = by_epoch.learning(list(by_epoch.histories(Registry(where), metric)), metric)
    assert bad == []
    return found


def test_mean_and_range_over_seeds_at_each_step(tmp_path: Path) -> None:
    put(tmp_path, "rope", [0.2, 0.6, 0.9], 1)
    put(tmp_path, "rope", [0.1, 0.9, 0.9], 2)
    put(tmp_path, "none", [0.0, 0.3, 0.4], 1)
    (panel,) = learning(tmp_path)
    assert (panel.title, panel.axis, panel.seen) == ("reverse", "steps", None)
    assert panel.lines["row"].to_list() == ["none"] * 3 + ["rope"] * 3  # in the order of the tables
    rope = panel.lines.filter(row="rope")
    assert rope["x"].to_list() == [100, 200, 300]
    assert rope["mean"].to_list() == pytest.approx([0.15, 0.75, 0.9])
    assert rope["least"].to_list() == [0.1, 0.6, 0.9]
    assert rope["most"].to_list() == [0.2, 0.9, 0.9]
    assert panel.lines["seeds"].to_list() == [1, 1, 1, 2, 2, 2]
    (panel,) = learning(tmp_path, "cross_entropy")
    assert panel.lines.filter(row="none")["mean"].to_list() == pytest.approx([2.0, 1.4, 1.2])


def test_images_have_the_test_curve_beside_the_other(tmp_path: Path) -> None:
    """The line is the mean over seeds. It has a gap where an older run has no value."""
    put(tmp_path, "rope", [0.2, 0.6], 1, source="digits", test=[0.4, 0.8])
    put(tmp_path, "rope", [0.4, 0.8], 2, source="digits", test=[0.1, 0.7])
    put(tmp_path, "none", [0.2, 0.3], 1, source="digits", test=[0.1, 0.2])
    put(tmp_path, "none", [0.2, 0.3], 2, source="digits")
    put(tmp_path, "rope", [0.5], 1)
    words, digits = learning(tmp_path)
    assert (words.title, digits.title) == ("reverse", "images/digits")
    assert digits.lines.filter(row="rope")["test"].to_list() == pytest.approx([0.25, 0.75])
    assert digits.lines.filter(row="rope")["mean"].to_list() == pytest.approx([0.3, 0.7])
    assert digits.lines.filter(row="none")["test"].to_list() == [None, None]
    assert words.lines["test"].to_list() == [None]
    _, digits = learning(tmp_path, "cross_entropy")
    assert digits.lines.filter(row="rope")["test"].to_list() == pytest.approx([1.5, 0.5])
