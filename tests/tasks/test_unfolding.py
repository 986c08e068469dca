"""The unfolding of a target tree: from the root on, every place that opens is answered, which gives the target."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.tasks._trees import Trees

FORMS: list[dict[str, Any]] = [
    {"branching": k, "binarise": b, "depth_mean": mean, "depth_std": 1}
    for k, mean in ((2, 5), (3, 3))
    for b in (False, True)
]

UNFOLDING = [n for n in tasks.names() if issubclass(tasks.load(n), Trees) and not tasks.load(n).positions_given]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("target_order", ["breadth", "depth"])
@pytest.mark.parametrize("name", UNFOLDING)
def test_targets_unfold_in_their_order(name: str, target_order: str, form: dict[str, Any]) -> None:
    """Breadth first by a queue, depth first by a stack. The answer of each node is looked up in the target."""
    task = tasks.make(name, target_order, "depth", **form)
    assert isinstance(task, Trees)
    table = task.sample(rows=range(500), split="train", seed=5).to_pylist()
    op = np.array([task.ops.index(row["op"]) if row["op"] else -1 for row in table])
    source = [dict(zip(row["source_positions"], row["source_ids"], strict=True)) for row in table]
    pointer = np.array([nodes.get(2, -1) for nodes in source])  # the index leaf of tree-ops
    closing = task.closing(op, pointer)
    sizes = [len(row["target_ids"]) for row in table]
    position, symbol = (np.concatenate([row[f"target_{x}"] for row in table]) for x in ("positions", "ids"))
    opened = task.opens(position.astype(np.int64), symbol, np.repeat(closing, sizes))
    assert opened.shape == (sum(sizes), 2 if form["binarise"] else form["branching"])
    for row, children in zip(table, np.split(opened, np.cumsum(sizes)[:-1]), strict=True):
        below = dict(zip(row["target_positions"], children.tolist(), strict=True))
        agenda, written = deque([1]), []
        while agenda:
            place = agenda.popleft() if target_order == "breadth" else agenda.pop()
            written.append(place)
            places = [child for child in below[place] if child]
            agenda += places if target_order == "breadth" else reversed(places)
        assert written == row["target_positions"]
