"""Trained runs that are evaluated on test rows which several datasets share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.reports import stats
from tests.conftest import ape
from tests.registered import edit

TRAIN = ["train", "--preset", "tiny", "--scheme", "rope", "--task", "copy", "--set", "steps=2"]


def lines(*words: str) -> dict[int, dict[str, Any]]:
    """The lines of exact match of a report, by size."""
    found = json.loads(ape("report", *words, "--format", "json")[0])
    return {line["size"]: line for line in found if line["metric"] == "exact_match"}


@pytest.mark.parametrize("told", [True, False])
def test_requests_that_share_a_size(here: Path, told: bool) -> None:
    """Three requests have the same 1,000 rows of size 8. Evaluations of earlier versions have no field `plan`."""
    means = set()
    for sizes in ("8,12", "8,16", "8,20"):
        ape(*TRAIN, "--sizes", "1-6", "--generalise", sizes)
        for path in here.glob("results/runs/*/eval/*") if not told else []:
            edit(path, lambda found: found.pop("plan", None))
        for words in (["--by", "size", "--metric", "exact_match"], ["--view", "generalisation"]):
            line = lines(*words)[8]
            assert (line["rows"], line["tokens"]) == (1000, 9000)
            interval = stats.wilson(line["mean"], 1000)
            assert (line["low_over_rows"], line["high_over_rows"]) == pytest.approx(interval)
        found = json.loads(ape("report", "--by", "size", "--format", "json")[0])
        means |= {line["mean"] for line in found if line["size"] == 8}
    assert len(means) == 1
    table = ape("report", "--by", "size", "--format", "markdown")[0]
    assert "No row counts twice: length 8 is of copy-sizes-" in table


def test_the_example_of_the_guide(here: Path) -> None:
    """The 100 rows of length 50 of `copy-sizes-30-50` are among the 1,000 of `--generalise 20,50`."""
    ape(*TRAIN, "--sizes", "1-10", "--generalise", "20,50")
    ape("gen", "copy", "--sizes", "30,50", "--n", "0", "--n-validation", "0", "--n-test", "100")
    ape("eval", "--data", "copy-sizes-30-50")
    found = lines("--view", "generalisation")
    assert {size: line["rows"] for size, line in found.items() if size > 10} == {20: 1000, 30: 100, 50: 1000}
    assert lines("--by", "size", "--metric", "exact_match")[50]["rows"] == 1000
