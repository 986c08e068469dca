"""tree-copy: the target re-derived; the sampler's shapes, depths and symbols."""

from __future__ import annotations

import numpy as np
import pytest

from ape_cli import tasks, trees
from tests import recursive
from tests.tasks.contract import check_trees, rows


@pytest.mark.parametrize("order", ["breadth", "depth"])
def test_target_is_rederived(order: str) -> None:
    for source, row in check_trees("tree-copy", order, lambda tree: tree):
        assert row["op"] is None
        for node in recursive.nodes(source):  # ids: ten leaves from 3 on, then ten operators
            assert (3 <= node[0] < 13) if len(node) == 1 else (13 <= node[0] < 23)


def test_depths_are_rounded_not_truncated() -> None:
    sizes = np.array([r["size"] for r in rows("tree-copy", count=20_000)[1]])
    assert abs(sizes.mean() - 7.0) < 4 / 20_000**0.5
    assert abs(sizes.std() - np.sqrt(1 + 1 / 12)) < 0.03  # rounding adds a twelfth to the variance


def test_shapes_follow_the_sampler() -> None:
    """One child has depth exactly d-1, the other a depth uniform on 0..d-1, sides by a fair coin."""
    _, found = rows("tree-copy", count=6_000, depth_mean=4, depth_std=0)
    shallow, left_is_deep, even = [], 0, 0
    for row in found:
        root = recursive.build(row["source_ids"], row["source_positions"])
        left, right = map(recursive.depth, root[1:])
        assert max(left, right) == 3
        shallow.append(min(left, right))
        left_is_deep += left > right
        even += left == right
    counts = np.bincount(shallow, minlength=4)
    assert ((counts - 1500) ** 2 / 1500).sum() < 20  # chi-square, 3 degrees of freedom
    assert abs(left_is_deep - (6_000 - even) / 2) < 4 * (6_000 - even) ** 0.5 / 2
    nodes = np.mean([len(r["source_ids"]) for r in found])
    assert abs(nodes - trees.mean_nodes(4)) < 0.3


def test_orders_hold_the_same_trees() -> None:
    by_order = [tasks.make("tree-copy", o).sample(rows=range(200), split="test", seed=1) for o in ("breadth", "depth")]
    for one, other in zip(*(t.to_pylist() for t in by_order), strict=True):
        assert one["source_ids"] != other["source_ids"] or len(one["source_ids"]) <= 5
        assert recursive.build(one["source_ids"], one["source_positions"]) == recursive.build(
            other["source_ids"], other["source_positions"]
        )
