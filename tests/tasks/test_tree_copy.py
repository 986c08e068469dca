"""tree-copy: the target re-derived, and the shapes, depths and symbols of the sampler."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ape_cli.structure import trees
from ape_cli.tasks._trees import leaves_distribution, mean_nodes
from tests import recursive
from tests.tasks.contract import FORMS, check_trees, in_orders, rows


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], order: str) -> None:
    for source, row in check_trees("tree-copy", order, lambda tree: tree, **form):
        assert row["op"] is None
        for node in recursive.nodes(source):  # ids: ten leaves from 3 on, then ten operators
            assert (3 <= node[0] < 13) if len(node) == 1 else (13 <= node[0] < 23)


def test_shapes_follow_the_sampler() -> None:
    """One child has depth exactly d-1, the other a uniform depth in 0..d-1. A fair coin decides the sides."""
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
    assert abs(nodes - mean_nodes(4)) < 0.3


def test_shapes_of_more_branches_follow_the_sampler() -> None:
    """One child of three, at a uniformly drawn place, has depth d-1. Each other child has a uniform depth in 0..d-1."""
    _, found = rows("tree-copy", count=9_000, depth_mean=2, depth_std=0, branching=3)
    counts = Counter(
        tuple(map(recursive.depth, recursive.build(r["source_ids"], r["source_positions"], 3)[1:])) for r in found
    )
    shapes = [s for s in itertools.product((0, 1), repeat=3) if any(s)]
    # for each of three equal chances for the deep child's place, the other two have four equal chances
    expected = {s: 9_000 * sum(s) / 12 for s in shapes}
    assert set(counts) == set(shapes)
    assert sum((counts[s] - expected[s]) ** 2 / expected[s] for s in shapes) < 27.9  # 6 degrees of freedom: p = 1e-4


@pytest.mark.parametrize(("k", "depth"), [(2, 6), (3, 4), (5, 3)])
def test_the_means_are_the_sampler_s(k: int, depth: int) -> None:
    """The expected number of nodes and the distribution of leaf counts, compared with counted trees."""
    keys = np.arange(20_000, dtype=np.uint64) * np.uint64(7919)
    _, offsets, leaf = trees.grow(np.full(20_000, depth), keys, k)
    nodes = np.diff(offsets)
    assert abs(nodes.mean() - mean_nodes(depth, k)) < 4 * nodes.std() / 20_000**0.5
    leaves = np.add.reduceat(leaf, offsets[:-1], dtype=np.int64)
    assert (leaves == nodes - nodes // k).all()
    chance = leaves_distribution(depth, 400, k)[-1]
    assert abs(chance.sum() - 1) < 1e-12
    assert abs(chance @ (np.arange(401) * k - 1) / (k - 1) - mean_nodes(depth, k)) < 1e-9  # n leaves, m nodes
    few = int(np.quantile(leaves, 0.3))
    assert abs((leaves <= few).mean() - chance[: few + 1].sum()) < 0.015
