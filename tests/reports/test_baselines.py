"""Rows for what is reached without a model: from the file in the folder of the dataset, if it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.reports.test_aggregation import add, tables_of

COUNTED = {
    "most frequent answer": {"token_accuracy": 0.25, "exact_match": 0.0},
    "previous answer": {"token_accuracy": 0.5, "exact_match": 0.125},
    "symbol": {"token_accuracy": 0.4, "exact_match": 0.0625},
}


def put(fingerprint: str = "f" * 64, name: str = "reverse-small", **fields: Any) -> None:
    path = Path("datasets") / name / "baselines" / "test.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"fingerprint": fingerprint, "constant_guess": 0.2, "counted": COUNTED} | fields))


def foot(**options: Any) -> list[tuple[str, list[str]]]:
    (table,) = tables_of(Path("results"), **options)
    assert [rule.partition(":")[0] for rule in table.rules] == [name for name, _ in table.foot]
    return list(table.foot)


def test_chance_and_the_best_rule(here: Path) -> None:
    add(Path("results"), "rope", 0.9)
    assert foot() == []
    put()
    assert foot() == [("chance", ["25.00"]), ("simple rule", ["50.00"])]
    assert foot(metric="exact_match") == [("chance", ["0.00"]), ("simple rule", ["12.50"])]
    assert foot(metric="cross_entropy") == []


def test_images_have_no_rule(here: Path) -> None:
    add(Path("results"), "rope", 0.9, source="digits")
    put(name="images-digits", counted={})
    assert foot() == [("chance", ["20.00"])]


def test_counts_of_another_dataset_are_not_shown(here: Path) -> None:
    """A dataset that was generated again has another fingerprint. Only one of two columns has its own."""
    add(Path("results"), "rope", 0.9)
    add(Path("results"), "rope", 0.9, task="copy", name="copy-small", fingerprint="a" * 64)
    put(fingerprint="b" * 64)
    assert foot() == []
    put(fingerprint="a" * 64, name="copy-small")
    assert foot()[0] == ("chance", ["25.00", "—"])
