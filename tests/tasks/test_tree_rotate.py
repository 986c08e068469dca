"""tree-rotate: the mirror image at every depth, or of the root alone, or the rotation of search trees."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli import tasks
from ape_cli.structure import trees
from tests import recursive
from tests.tasks.contract import FORMS, check_trees, in_orders


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], order: str) -> None:
    found = check_trees("tree-rotate", order, recursive.mirror, **form)
    assert sum(recursive.mirror(tree) != reversed_root(tree) for tree, _ in found) > len(found) / 2


def reversed_root(tree: recursive.Tree) -> recursive.Tree:
    return (tree[0], *tree[:0:-1])


def rotated(tree: recursive.Tree) -> recursive.Tree:
    """A right rotation, as textbooks draw it, and then the same in the three subtrees."""
    match tree:
        case (f, (p, left, middle), right):
            return (p, rotated(left), (f, rotated(middle), rotated(right)))
        case _:
            return tree


@pytest.mark.parametrize(
    ("mirror", "expected", "form", "order"),
    [
        ("root", reversed_root, {}, "breadth"),
        ("root", reversed_root, {}, "breadth-to-depth"),
        ("root", reversed_root, {"branching": 3, "depth_mean": 4, "depth_std": 0.5}, "depth"),
        ("root", reversed_root, {"binarise": True}, "depth-to-breadth"),
        ("search-tree", rotated, {}, "breadth"),
        ("search-tree", rotated, {}, "breadth-to-depth"),
        ("search-tree", rotated, {"binarise": True}, "depth"),
    ],
)
def test_other_forms_are_rederived(mirror: str, expected: Any, form: dict[str, Any], order: str) -> None:
    found = check_trees("tree-rotate", order, expected, mirror=mirror, **form)
    assert sum(expected(tree) != recursive.mirror(tree) for tree, _ in found) > 0.9 * len(found)
    if mirror == "search-tree":  # one left child in 14 is a leaf at depth 7: it is not the deep one, and drew 0
        kept = sum(rotated(tree) == tree for tree, _ in found) / len(found)
        assert abs(kept - 1 / 14) < 4 * (1 / 14 / len(found)) ** 0.5


def test_a_rotation_keeps_the_order_of_leaves() -> None:
    """The law of rotations of search trees: nodes from left to right stay the same, in any tree."""

    def in_order(tree: recursive.Tree) -> list[int]:
        return [*in_order(tree[1]), tree[0], *in_order(tree[2])] if len(tree) > 1 else [tree[0]]

    for tree, row in check_trees("tree-rotate", "breadth", rotated, mirror="search-tree"):
        assert in_order(recursive.build(row["target_ids"], row["target_positions"])) == in_order(tree)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_it_is_its_own_inverse(k: int) -> None:
    """Nodes that stay in their place are in the middle of their level: middle children all the way down."""
    row = tasks.make("tree-rotate", branching=k, depth_mean=4).sample(rows=range(200), split="train", seed=1)
    heap = row["source_positions"].combine_chunks().values.to_numpy().astype("int64")
    assert (trees.mirror(trees.mirror(heap, k), k) == heap).all()
    assert set(heap[trees.mirror(heap, k) == heap].tolist()) <= ({3**d for d in range(11)} if k == 3 else {1})
