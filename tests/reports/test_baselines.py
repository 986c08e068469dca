"""Rows for what is reached without a model, which evaluations store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.registered import put_evaluation
from tests.reports.test_aggregation import add, tables_of

COUNTED = {
    "most frequent answer": {"token_accuracy": 0.25, "exact_match": 0.0},
    "previous answer": {"token_accuracy": 0.5, "exact_match": 0.125},
    "symbol": {"token_accuracy": 0.4, "exact_match": 0.1875},
}


def evaluated(baselines: dict[str, dict[str, float]], **run: Any) -> None:
    """Registers a run whose evaluation has baselines."""
    folder = add(Path("results"), "rope", 0.9, **run)
    (file,) = (folder / "eval").iterdir()
    put_evaluation(folder, json.loads(file.read_text()) | {"baselines": baselines})


def foot(**options: Any) -> list[tuple[str, list[str]]]:
    (table,) = tables_of(Path("results"), **options)
    assert [rule.partition(":")[0] for rule in table.rules] == [name for name, _ in table.foot]
    return list(table.foot)


def test_chance_and_the_best_rule(here: Path) -> None:
    """Which rule is the best depends on the metric."""
    evaluated(COUNTED)
    assert foot() == [("chance", ["25.00"]), ("simple rule", ["50.00"])]
    assert foot(metric="exact_match") == [("chance", ["0.00"]), ("simple rule", ["18.75"])]
    assert foot(metric="cross_entropy") == []


def test_images_have_no_rule(here: Path) -> None:
    evaluated({"most frequent class": {"token_accuracy": 0.2, "exact_match": 0.2}}, source="digits")
    assert foot() == [("chance", ["20.00"])]


def test_evaluations_of_earlier_versions_have_none(here: Path) -> None:
    """Only one of two columns has its own."""
    add(Path("results"), "rope", 0.9)
    assert foot() == []
    evaluated(COUNTED, task="copy", name="copy-small", fingerprint="a" * 64)
    assert foot()[0] == ("chance", ["25.00", "—"])
