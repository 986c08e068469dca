"""Trained runs that are evaluated on test rows which several datasets share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import ape

TRAIN = ["train", "--preset", "tiny", "--scheme", "rope", "--task", "copy", "--set", "steps=2"]


def lines(*words: str) -> dict[int, dict[str, Any]]:
    """The lines of exact match of a report, by size."""
    found = json.loads(ape("report", *words, "--format", "json")[0])
    return {line["size"]: line for line in found if line["metric"] == "exact_match"}


def test_the_example_of_the_guide(here: Path) -> None:
    """The 100 rows of length 50 of `copy-sizes-30-50` are among the 1,000 of `--generalise 20,50`."""
    ape(*TRAIN, "--sizes", "1-10", "--generalise", "20,50")
    ape("gen", "copy", "--sizes", "30,50", "--n", "0", "--n-validation", "0", "--n-test", "100")
    ape("eval", "--data", "copy-sizes-30-50")
    found = lines("--view", "generalisation")
    assert {size: line["rows"] for size, line in found.items() if size > 10} == {20: 1000, 30: 100, 50: 1000}
    assert lines("--by", "size", "--metric", "exact_match")[50]["rows"] == 1000
