"""Scores by operator: by hand, in every format, and separately for each dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, left_out
from ape_cli.reports.views import Options, by_operator
from ape_cli.runs import filters
from ape_cli.runs.registry import Registry
from tests.registered import edit, put_evaluation
from tests.reports.test_aggregation import add

VIEW = by_operator.ByOperator()
OPS = ["extract", "flip-extract", "truncate", "no-op"]
COUNTS = {"extract": (40, 100), "flip-extract": (30, 90), "truncate": (20, 1000), "no-op": (10, 2000)}  # rows, tokens
Scores = dict[str, float]


def put(where: Path, scheme: str, exact: Scores, seed: int = 1, *, decode: str = "teacher", **options: Any) -> Path:
    """A registered run of tree-ops with its exact match by operator.

    Token accuracy is in the middle between it and 1, and entropy is 1 minus it.
    """
    before = set(where.glob("runs/*/eval/*"))
    given = {"task": "tree-ops", "order": "breadth", "name": "tree-ops-breadth-small"} | options
    add(where, scheme, 0.5, seed, **given)
    (path,) = set(where.glob("runs/*/eval/*")) - before
    found = json.loads(path.read_text())
    found["by_op"] = [
        {"op": op, "token_accuracy": (1 + x) / 2, "exact_match": x, "rows": COUNTS[op][0], "tokens": COUNTS[op][1]}
        | ({"cross_entropy": 1 - x} if decode == "teacher" else {})
        for op, x in exact.items()
    ]
    found["decode"] = decode
    rows = {"train": 10_000, "validation": 1_000, "test": sum(part["rows"] for part in found["by_op"])}
    edit(path.parents[1] / "run.json", lambda about: about["dataset"].update(rows=rows))
    path.unlink()
    return put_evaluation(path.parents[1], {key: value for key, value in found.items() if key != "by_size"})


def read(where: Path, metric: str = "exact_match", preset: str | None = None, **options: Any) -> Any:
    registry = Registry(where).where(filters.make(None, None, [preset] if preset else None))
    with left_out() as bad:
        found = VIEW.read(registry, Options(**({"metric": metric} | options)))
    assert bad == []
    return found


def scored(extract: float, flip: float, truncate: float, no_op: float) -> Scores:
    return dict(zip(OPS, (extract, flip, truncate, no_op), strict=True))


def fill(where: Path) -> None:
    put(where, "rope", scored(0.2, 0.1, 0.9, 1.0), 1)
    put(where, "rope", scored(0.4, 0.3, 0.7, 1.0), 2)
    put(where, "none", scored(0.1, 0.0, 0.0, 0.0), 1)
    put(where, "none", scored(0.1, 0.0, 0.0, 0.2), 2)


def test_a_column_for_each_operator_by_hand(tmp_path: Path) -> None:
    """Means of 0.3 and deviations of 0.2 / √2 of two values.

    Rows and tokens are those of the data, for any number of seeds.
    """
    fill(tmp_path)
    found = read(tmp_path).filter(scheme="rope")
    assert found["op"].to_list() == OPS
    assert found["mean"].to_list() == pytest.approx([0.3, 0.2, 0.8, 1.0])
    assert found["std"].to_list() == pytest.approx([0.2 / 2**0.5, 0.2 / 2**0.5, 0.2 / 2**0.5, 0])
    assert found.select("rows", "tokens").rows() == list(COUNTS.values())


def test_orders_presets_and_evaluated_data_stand_apart(tmp_path: Path) -> None:
    """Another dataset is not pooled with that of training, and is left out with `own`, or if it is for tests alone."""
    one = scored(0.5, 0.5, 0.5, 0.5)
    put(tmp_path, "rope", one)
    other = put(tmp_path, "rope", scored(0.1, 0.1, 0.1, 0.1), evaluated="e" * 64)
    put(tmp_path, "rope", one, order="depth", fingerprint="d" * 64)
    put(tmp_path, "rope", one, preset="tiny")
    titles = [t.title.split(" by ")[0] for t in VIEW.tables(read(tmp_path))]
    assert titles == ["tree-ops/breadth", "tree-ops/breadth on longer", "tree-ops/depth", "tree-ops/breadth"]
    assert set(read(tmp_path).filter(fingerprint="f" * 64)["mean"]) == {0.5}
    own = [t.title.split(" by ")[0] for t in VIEW.tables(read(tmp_path, own=True, preset="small"))]
    assert own == ["tree-ops/breadth", "tree-ops/depth"]
    edit(other, test_only=True)
    assert [t.title.split(" by ")[0] for t in VIEW.tables(read(tmp_path))] == [titles[0], *titles[2:]]


def test_runs_without_operators_are_left_out_and_alone_an_error(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.9)
    add(tmp_path, "rope", 0.9, source="digits")
    with pytest.raises(ApeError, match=r"no run was evaluated by op[\s\S]*--task tree-ops"):
        read(tmp_path)
    put(tmp_path, "rope", scored(0.5, 0.5, 0.5, 0.5), decode="greedy")
    assert read(tmp_path, decode="greedy").height == 4
    with pytest.raises(ApeError, match="no evaluation matches the selection"):
        read(tmp_path, split="validation")
