"""`ape check` and measured costs of every scheme and kind of attention, which take seconds each."""

from __future__ import annotations

import json

from ape_cli.cli import app
from ape_cli.evaluation import profiling
from tests.cli.test_lists import run


def test_costs_are_counted_and_timed() -> None:
    found = profiling.measure("transformer-xl", rounds=1)
    assert found.parameters == 128 * 128 + 2 * 128  # W_R of every head, u and v
    assert found.extra_memory_mib > 1  # one term for each pair of tokens
    assert found.memory_ratio > 1
    assert found.time_ratio > 0
    none = profiling.measure("none", rounds=1)
    assert (none.parameters, none.extra_memory_mib, none.memory_ratio) == (0, 0.0, 1.0)


def test_check_prints_errors_and_ends_well() -> None:
    done = run(app, ["check", "rope", "linear"])
    assert done.exit_code == 0, done.output
    assert "composition" in done.stdout
    assert "relative" in done.stdout
    answer = json.loads(run(app, ["check", "rope", "linear", "--json"]).stdout)
    assert {f["subject"] for f in answer} == {"rope", "linear"}
    assert all(f["holds"] for f in answer)
    errors = [f for f in answer if f["law"] not in ("uniqueness", "reach", "locality", "distance") and f["float64"]]
    assert all(f["float64"] <= 1e-9 and f["float32"] <= 1e-4 for f in errors)
