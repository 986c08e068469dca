"""What a training step costs relative to `none`, from the benchmarks of record."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.record.scores import ROOT

SHAPES = ("paper, d=512, batch 64", "paper, d=512, batch 16", "small, d=128, batch 64")
READS = {"tree": "tree(2)", "orthogonal-tree": "tree(2)", "orthogonal-grid": "grid(2)", "orthogonal": "seq*tree(2)"}


@cache
def _record(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def on_a_cpu(benchmark: str, scheme: str, shape: str, bias: bool) -> float:
    """Returns the time (`step`) or peak memory (`step_memory`) of a step, without or with the locality bias."""
    what = f"{scheme} on {READS.get(scheme, 'seq')}; {shape}" + ", locality bias 0.98" * bias
    (value,) = (row["value"] for row in _record("cpu-2")["benchmarks"][benchmark]["rows"] if row["what"] == what)
    return value


def on_a_gpu(scheme: str, column: str) -> float | None:
    """Returns the time of a recorded step at the preprint's size on an H200, or None if it was not measured."""
    rows = _record("h200")["rows"]
    own, none = (rows.get(f"{name} on {column}, tf32, recorded, 1 at a time") for name in (scheme, "none"))
    return own["ms"] / none["ms"] if own else None
