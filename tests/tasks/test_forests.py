"""forest-reverse and forest-rotate: each tree and the order of the trees re-derived with nested tuples."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from tests import recursive
from tests.tasks.contract import count_of, in_orders, rows, sides

Forest = list[recursive.Tree]
FORMS: list[dict[str, Any]] = [
    {},
    {"branching": 3, "depth_mean": 2, "depth_std": 0.5},
    {"branching": 3, "depth_mean": 2, "depth_std": 0.5, "binarise": True},
    {"trees_mean": 1, "trees_std": 0},
]
EXPECTED: dict[str, Any] = {
    "forest-reverse": lambda forest: forest[::-1],
    "forest-rotate": lambda forest: [recursive.mirror(tree) for tree in forest],
}


def forest(ids: list[int], positions: list[list[int]], order: str, options: dict[str, Any]) -> Forest:
    """The trees of one side. Fails if they are not one after the other, or if one is not in the order."""
    k, binary = options.get("branching", 2), options.get("binarise", False)
    found = []
    for number, (place, tokens) in enumerate(groupby(zip(positions, ids, strict=True), key=lambda token: token[0][0])):
        assert place == number
        heaps, symbols = zip(*((position[1], symbol) for position, symbol in tokens), strict=True)
        if binary:
            tree = recursive.unbinarise(recursive.build_binary(list(symbols), list(heaps)))
            line = recursive.linear_binary(recursive.binarise(tree), order)
        else:
            tree = recursive.build(list(symbols), list(heaps), k)
            line = recursive.linear(tree, order, k)
        assert line == list(zip(symbols, heaps, strict=True))
        found.append(tree)
    return found


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
@pytest.mark.parametrize("name", EXPECTED)
def test_target_is_rederived(name: str, form: dict[str, Any], order: str) -> None:
    source_order, target_order = sides(order)
    count = count_of(form, FORMS)
    task, found = rows(name, order, count=count, **form)
    names, changed = task.id_names, 0
    for row in found:
        source = forest(row["source_ids"], row["source_positions"], source_order, form)
        target = forest(row["target_ids"], row["target_positions"], target_order, form)
        assert target == EXPECTED[name](source)
        changed += target != source
        if not form.get("binarise"):
            assert row["size"] == max(map(recursive.depth, source))
        for tree in source:  # leaves and operators have symbols of their own
            assert all(names[node[0]].startswith("f" if node[1:] else "x") for node in recursive.nodes(tree))
    assert changed > (0.9 * count if form.get("trees_mean") != 1 else 0) or name == "forest-reverse"


def test_the_number_of_trees_and_their_depths_are_drawn() -> None:
    task = tasks.make("forest-reverse", trees_mean=5, trees_std=1, depth_mean=3, depth_std=1)
    drawn = task.draw(np.arange(5_000, dtype=np.uint64) * np.uint64(7919))
    trees = drawn.position[drawn.offsets[1:] - 1, 0] + 1
    assert abs(trees.mean() - 5) < 0.06
    assert abs(trees.std() - np.sqrt(1 + 1 / 12)) < 0.05  # rounding adds a twelfth to the variance
    heap, number = drawn.position[:, 1], np.cumsum(drawn.position[:, 1] == 1) - 1
    depth = np.zeros(trees.sum(), dtype=np.int64)
    np.maximum.at(depth, number, np.array([int(i).bit_length() - 1 for i in heap]))
    assert abs(depth.mean() - 3) < 0.04
    assert abs(task.mean_size - drawn.size.mean()) < 0.1
    begins = (np.cumsum(trees) - trees)[trees > 1]
    assert abs(np.corrcoef(depth[begins], depth[begins + 1])[0, 1]) < 0.06  # depths are independent
