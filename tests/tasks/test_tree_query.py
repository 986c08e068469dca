"""tree-query: the answers re-derived by following the addresses, what is drawn, and how the two forms agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
from tests import recursive
from tests.tasks.contract import FORMS, ROWS, count_of, in_splits, linear, rows, sides

OPS = ["subtree", "node", "parent", "ancestor"]


def lineages(tree: recursive.Tree) -> list[list[recursive.Tree]]:
    """Returns the nodes from the root to each node, for all nodes. The root comes first."""
    return [[tree], *([tree, *rest] for child in tree[1:] for rest in lineages(child))]


def addressed(address: recursive.Tree, tree: recursive.Tree, by: str) -> list[recursive.Tree]:
    """Returns the nodes from the root of the tree to the node that an address names."""
    if by == "label":
        (label,) = address
        (found,) = [line for line in lineages(tree) if line[-1][0] == label]
        return found
    child = tree[int(address[0])]
    assert len(address) <= 2, "a path is a chain"
    return [tree, *(addressed(address[1], child, by) if address[1:] else [child])]


def expected(source: recursive.Tree, by: str) -> recursive.Tree:
    operator, (at, *addresses), tree = source
    assert at == "at"
    lines = [addressed(address, tree, by) for address in addresses] or [[tree]]  # the empty path
    assert len(lines) == (2 if operator == "ancestor" else 1)
    if operator == "ancestor":
        shared = [a for a, b in zip(*lines, strict=False) if a is b]
        assert len(shared) < min(map(len, lines)), "neither node is above the other"
        return (shared[-1][0],)
    return {"subtree": lines[0][-1], "node": lines[0][-1][:1], "parent": lines[0][-2:][0][:1]}[operator]


def check(
    order: str, by: str, split: str, count: int = ROWS, **options: Any
) -> list[tuple[recursive.Tree, dict[str, Any]]]:
    """Checks each row: the orders of both sides, the labels, and the answer. Returns the sources, not binarised."""
    k, binary = options.get("branching", 2), options.get("binarise", False)
    found = []
    for row in rows("tree-query", order, split=split, count=count, by=by, **options)[1]:
        if binary:
            source = recursive.unbinarise(recursive.build_binary(row["source"], row["source_positions"]))
        else:
            source = recursive.build(row["source"], row["source_positions"], k, full=False)
        assert source[0] == row["op"]
        labels = recursive.symbols(source[2])
        assert len(set(labels)) == len(labels), "a label is repeated"
        assert {len(node) - 1 for node in recursive.nodes(source[2])} == {0, k}
        assert recursive.depth(source[1]) <= recursive.depth(source[2]), "the query is no deeper than the tree"
        assert row["size"] == (max(row["source_positions"]).bit_length() - 1 if binary else recursive.depth(source))
        source_order, target_order = sides(order)
        assert list(zip(row["source"], row["source_positions"], strict=True)) == linear(source, source_order, k, binary)
        answer = list(zip(row["target"], row["target_positions"], strict=True))
        assert answer == linear(expected(source, by), target_order, k, binary)
        found.append((source, row))
    return found


@pytest.mark.parametrize(("form", "split"), in_splits(FORMS), ids=str)
@pytest.mark.parametrize("by", ["path", "label"])
def test_target_is_rederived(by: str, form: dict[str, Any], split: str) -> None:
    order = {"train": "breadth", "validation": "depth", "test": "depth-to-breadth"}[split]
    check(order, by, split, count_of(form, FORMS), **form)


def test_questions_are_drawn_as_documented() -> None:
    """Operators are uniform; so is the place of the node, for `ancestor` that of the answer among the inner nodes."""
    places: dict[str, list[float]] = {op: [] for op in OPS}
    for source, row in check("depth", "label", "train", depth_mean=5, depth_std=0):
        tree = source[2]
        candidates = {
            "parent": recursive.nodes(tree)[1:],
            "ancestor": [node for node in recursive.nodes(tree) if node[1:]],
        }.get(row["op"], recursive.nodes(tree))
        answer = expected(source, "label") if row["op"] == "ancestor" else source[1][1]
        index = [node[0] for node in candidates].index(answer[0])
        places[row["op"]].append((index + 0.5) / len(candidates))
    assert all(abs(len(found) - ROWS / 4) < 4 * (ROWS * 3 / 16) ** 0.5 for found in places.values())
    for op, found in places.items():
        assert abs(np.mean(found) - 0.5) < 4 * (1 / 12 / (ROWS / 4)) ** 0.5, op
        assert min(found) < 0.1, op
        assert max(found) > 0.9, op


@pytest.mark.parametrize(("k", "depth"), [(2, 61), (3, 38)])
def test_the_deepest_path_fits_heap_indices(k: int, depth: int) -> None:
    """A path to the deepest node of a tree has its last node on the last level that heap indices hold."""
    task = tasks.make("tree-query", branching=k, depth_mean=3, depth_std=0)
    assert task.max_depth == depth + 1
    last = 1
    for _ in range(depth):
        last = recursive.children(last, k)[-1]
    node = np.array([[0, 1]])
    counts, position, symbol = task._addresses(np.array([last, last]), np.array([3, 4]), node)
    expected = []
    for place in recursive.children(2, k)[:2]:
        for _ in range(depth):
            expected.append(place)
            place = recursive.children(place, k)[0]  # noqa: PLW2901
    assert (counts.tolist(), position.tolist()) == ([2 * depth], expected)
    assert max(expected) < 2**63
    assert {task.id_names[i] for i in symbol} == {str(k)}
