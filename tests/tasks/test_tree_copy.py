"""tree-copy: the target re-derived, and the shapes, depths and symbols of the sampler."""

from __future__ import annotations

import itertools
import random
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


@pytest.mark.parametrize(("redraw", "chances"), [(False, [4, 4, 4, 4]), (True, [5, 5, 5, 1])])
def test_shapes_follow_the_sampler(redraw: bool, chances: list[int]) -> None:
    """One child has depth exactly d-1, the other a uniform depth in 0..d-1. A fair coin decides the sides.

    With `redraw`, the second child also has depth d-1 only if both draws, each with a chance of 1/4, say so.
    """
    _, found = rows("tree-copy", count=6_000, depth_mean=4, depth_std=0, redraw=redraw)
    shallow, left_is_deep, even = [], 0, 0
    for row in found:
        root = recursive.build(row["source_ids"], row["source_positions"])
        left, right = map(recursive.depth, root[1:])
        assert max(left, right) == 3
        shallow.append(min(left, right))
        left_is_deep += left > right
        even += left == right
    counts, expected = np.bincount(shallow, minlength=4), 6_000 * np.array(chances) / 16
    assert ((counts - expected) ** 2 / expected).sum() < 20  # chi-square, 3 degrees of freedom
    assert abs(left_is_deep - (6_000 - even) / 2) < 4 * (6_000 - even) ** 0.5 / 2
    nodes = np.mean([len(r["source_ids"]) for r in found])
    assert abs(nodes - mean_nodes(4, redraw=redraw)) < 0.3


@pytest.mark.parametrize(("task", "above"), [("tree-copy", 0), ("tree-ops", 2)])
def test_trees_of_the_authors_programs(task: str, above: int) -> None:
    """Their mean size at depths of N(7, 1) without the decimals, by a plain restatement of their rule."""

    def nodes(depth: int) -> int:
        if depth == 0:
            return 1
        first, again = draw.randrange(depth), draw.randrange(depth)
        return 1 + nodes(first) + nodes(depth - 1 if first < depth - 1 else again)

    draw = random.Random(1)
    theirs = [nodes(int(draw.gauss(7, 1)) - above // 2) + above for _ in range(6_000)]
    _, found = rows(task, count=6_000, depth_mean=6.5, redraw=True)
    ours = [len(row["source_ids"]) for row in found]
    error = ((np.var(theirs) + np.var(ours)) / 6_000) ** 0.5
    assert abs(np.mean(theirs) - np.mean(ours)) < 4 * error
    assert abs(np.mean(ours) - {0: 33.1, 2: 26.1}[above]) < 1.0


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


@pytest.mark.parametrize(
    ("k", "depth", "redraw"), [(2, 6, False), (3, 4, False), (5, 3, False), (2, 6, True), (3, 4, True)]
)
def test_the_means_are_the_sampler_s(k: int, depth: int, redraw: bool) -> None:
    """The expected number of nodes and the distribution of leaf counts, compared with counted trees."""
    keys = np.arange(20_000, dtype=np.uint64) * np.uint64(7919)
    _, offsets, leaf = trees.grow(np.full(20_000, depth), keys, k, redraw=redraw)
    nodes = np.diff(offsets)
    assert abs(nodes.mean() - mean_nodes(depth, k, redraw=redraw)) < 4 * nodes.std() / 20_000**0.5
    leaves = np.add.reduceat(leaf, offsets[:-1], dtype=np.int64)
    assert (leaves == nodes - nodes // k).all()
    chance = leaves_distribution(depth, 400, k, redraw=redraw)[-1]
    assert abs(chance.sum() - 1) < 1e-12
    assert (
        abs(chance @ (np.arange(401) * k - 1) / (k - 1) - mean_nodes(depth, k, redraw=redraw)) < 1e-9
    )  # n leaves, m nodes
    few = int(np.quantile(leaves, 0.3))
    assert abs((leaves <= few).mean() - chance[: few + 1].sum()) < 0.015
