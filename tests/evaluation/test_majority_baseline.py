"""The score of the majority baseline, counted again from the Parquet files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from ape_cli.data.loader import open_dataset
from ape_cli.evaluation.count_baselines import majority_baseline
from tests.conftest import ape

EOS = 2


@pytest.mark.parametrize("task", ["copy --vocabulary 3", "tree-copy"])
def test_it_is_the_share_of_the_most_frequent_symbol(task: str, here: Path) -> None:
    ape("gen", *task.split(), "--n", "40", "--n-validation", "30", "--n-test", "300", "--out", "made")
    rows = pl.read_parquet(here / "made" / "data" / "test-*.parquet")["target_ids"].to_list()
    end = [] if task == "tree-copy" else [EOS]  # only words end with a symbol
    counts = Counter(symbol for row in rows for symbol in [*row, *end])
    assert majority_baseline(open_dataset("made").split("test")) == max(counts.values()) / counts.total()


def test_the_guess_is_a_class_for_images(here: Path) -> None:
    pytest.importorskip("sklearn")
    ape("gen", "images", "--source", "digits", "--out", "made")
    labels = pl.read_parquet(here / "made" / "data" / "test-*.parquet")["label"].to_list()
    assert majority_baseline(open_dataset("made").split("test")) == max(Counter(labels).values()) / len(labels)
