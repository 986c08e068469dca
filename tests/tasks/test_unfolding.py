"""The unfolding of a target tree: from the root on, every place that opens is answered, which gives the target."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.tasks._trees import EVERY, NONE, Trees

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


def test_what_opens_by_hand() -> None:
    """Ids: leaves 3..12, operators 13..22. The closing symbol, a leaf and an empty place open nothing."""
    plain, ternary, binary = (
        tasks.make("tree-copy", depth_mean=1, depth_std=0, branching=k, binarise=b)
        for k, b in ((2, False), (3, False), (3, True))
    )

    def opens(task: Any, position: list[int], symbol: list[int], closing: int = -1) -> list[list[int]]:
        return task.opens(np.array(position), np.array(symbol), np.full(len(position), closing)).tolist()

    assert opens(plain, [1, 5, 5, 0], [13, 22, 12, 13]) == [[2, 3], [10, 11], [0, 0], [0, 0]]
    assert opens(plain, [1], [13], closing=13) == [[0, 0]]
    assert opens(plain, [1, 1], [13, 14], closing=EVERY) == [[0, 0], [0, 0]]
    assert opens(plain, [1], [23]) == [[0, 0]]  # beyond the operators
    assert opens(plain, [2**61, 2**62], [13, 13]) == [[2**62, 2**62 + 1], [0, 0]]
    assert opens(ternary, [1, 3], [13, 13]) == [[2, 3, 4], [8, 9, 10]]
    # the root has no sibling; of three siblings the first two open the next one
    assert opens(binary, [1, 2, 5, 11], [13, 13, 3, 13]) == [[2, 0], [4, 5], [0, 11], [22, 0]]
    assert opens(binary, [2], [13], closing=13) == [[0, 5]]  # cut off, but not the last node
    assert opens(binary, [1, 2], [13, 13], closing=EVERY) == [[0, 0], [0, 5]]


def test_only_a_subtree_that_is_cut_off_and_a_label_close() -> None:
    op, pointer = np.array([-1, 0, 1, 2, 3]), np.array([70, 71, 72, 73, 74])
    assert tasks.make("tree-ops").closing(op, pointer).tolist() == [-1, -1, -1, 73, -1]
    assert tasks.make("tree-query").closing(op[1:], pointer[1:]).tolist() == [NONE, EVERY, EVERY, EVERY]
    assert tasks.make("c3").closing(op, pointer).tolist() == [NONE] * 5
