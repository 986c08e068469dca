"""What every task's test asks: thousands of rows, each re-derived from its source by plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ape_cli import tasks
from tests import recursive

ROWS = 2_000


def rows(name: str, order: str | None = None, *, split: str = "train", count: int = ROWS, **options: Any):
    task = tasks.make(name, order, **options)
    return task, task.sample(rows=range(count), split=split, seed=42).to_pylist()


def check_trees(
    name: str, order: str, expected: Callable[[recursive.Tree], recursive.Tree], **options: Any
) -> list[tuple[recursive.Tree, dict[str, Any]]]:
    """Source and target stand in the order that is claimed, and the target is what it should be."""
    found = []
    for row in rows(name, order, **options)[1]:
        source = recursive.build(row["source_ids"], row["source_positions"])
        assert list(zip(row["source_ids"], row["source_positions"], strict=True)) == recursive.linear(source, order)
        assert row["size"] == recursive.depth(source)
        target = recursive.linear(expected(source), order)
        assert list(zip(row["target_ids"], row["target_positions"], strict=True)) == target
        found.append((source, row))
    return found
