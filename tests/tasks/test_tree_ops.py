"""tree-ops: four operators on a subtree, which is addressed by the symbol of its root."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from tests import recursive
from tests.tasks.contract import FORMS, ROWS, check_trees, in_orders

OPS = {3 + 128 + i: name for i, name in enumerate(["extract", "flip-extract", "truncate", "no-op"])}


def expected(source: recursive.Tree) -> recursive.Tree:
    operator, (pointer,), tree = source
    chosen = [node for node in recursive.nodes(tree) if node[0] == pointer]
    assert len(chosen) == 1, "the pointer is not unique"

    def truncated(node: recursive.Tree) -> recursive.Tree:
        return (pointer,) if node[0] == pointer else (node[0], *map(truncated, node[1:]))

    return {
        "extract": lambda: chosen[0],
        "flip-extract": lambda: recursive.mirror(chosen[0]),
        "truncate": lambda: truncated(tree),
        "no-op": lambda: tree,
    }[OPS[operator]]()


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], order: str) -> None:
    found = check_trees("tree-ops", order, expected, **form)
    for source, row in found:
        assert row["op"] == OPS[source[0]]
        symbols = recursive.symbols(source[2])
        assert len(set(symbols)) == len(symbols), "a symbol is repeated"
        assert not OPS.keys() & set(symbols), "an operator of the task stands in the tree"
        for node in recursive.nodes(source[2]):
            assert (3 <= node[0] < 67) if len(node) == 1 else (67 <= node[0] < 131)


def test_the_root_alone_can_be_flipped() -> None:
    def flipped(source: recursive.Tree) -> recursive.Tree:
        operator, (pointer,), tree = source
        if OPS[operator] != "flip-extract":
            return expected(source)
        chosen = next(node for node in recursive.nodes(tree) if node[0] == pointer)
        return (chosen[0], *chosen[:0:-1])

    for form in ({}, {"branching": 3, "depth_mean": 4, "depth_std": 0.5}, {"binarise": True}):
        check_trees("tree-ops", "breadth", flipped, mirror="root", **form)


def test_operators_and_nodes_are_drawn_uniformly() -> None:
    found = check_trees("tree-ops", "depth", expected, depth_mean=4, depth_std=0)
    counts = Counter(row["op"] for _, row in found)
    assert all(abs(counts[name] - ROWS / 4) < 4 * (ROWS * 3 / 16) ** 0.5 for name in OPS.values())
    places = [recursive.symbols(t[2]).index(t[1][0]) / len(recursive.symbols(t[2])) for t, _ in found]
    expected_place = 0.5 - np.mean([0.5 / len(recursive.symbols(t[2])) for t, _ in found])
    assert abs(np.mean(places) - expected_place) < 4 * (1 / 12 / ROWS) ** 0.5


@pytest.mark.parametrize(("branching", "depth"), [(2, 7), (3, 5)])
def test_trees_with_too_many_leaves_are_drawn_again(branching: int, depth: int) -> None:
    """With 24 leaf symbols, a third or more of the trees need more. The depth stays as drawn."""
    task = tasks.make("tree-ops", vocabulary=48, branching=branching, depth_mean=depth, depth_std=0)
    table = task.sample(rows=range(500), split="train", seed=1)
    nodes = [len(ids) - 2 for ids in table["source_ids"].to_pylist()]
    assert set(table["size"].to_pylist()) == {depth}
    assert 20 < max(count - count // branching for count in nodes) <= 24


def test_a_vocabulary_that_can_not_do_is_refused_with_one_that_can() -> None:
    with pytest.raises(UsageError, match=r"too small for unique nodes[\s\S]*8 leaf symbols") as refused:
        tasks.make("tree-ops", vocabulary=16)
    suggested = int(re.findall(r"[0-9]+", str(refused.value.fix))[0])
    task = tasks.make("tree-ops", vocabulary=suggested)
    assert max(len(r) for r in task.sample(rows=range(300), split="train", seed=1)["source_ids"].to_pylist()) > 60
    with pytest.raises(UsageError, match="too small for unique nodes") as hopeless:  # no vocabulary would do
        tasks.make("tree-ops", branching=8, depth_mean=8, depth_std=0)
    assert hopeless.value.fix == "shallower trees"
