"""`ape check` and measured costs of every scheme and kind of attention, which take seconds each."""

from __future__ import annotations

from ape_cli.evaluation import profiling


def test_costs_are_counted_and_timed() -> None:
    found = profiling.measure("transformer-xl", rounds=1)
    assert found.parameters == 128 * 128 + 2 * 128  # W_R of every head, u and v
    assert found.extra_memory_mib > 1  # one term for each pair of tokens
    assert found.memory_ratio > 1
    assert found.time_ratio > 0
    none = profiling.measure("none", rounds=1)
    assert (none.parameters, none.extra_memory_mib, none.memory_ratio) == (0, 0.0, 1.0)
