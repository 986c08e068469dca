"""c3: one step of reduction, at every possible place at once and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tests import recursive
from tests.tasks.contract import FORMS, check_trees, in_orders

PLUS = 6


def reduce_once(tree: recursive.Tree) -> recursive.Tree:
    if len(tree) == 1:
        return tree
    if all(len(child) == 1 for child in tree[1:]):
        return (3 + sum(child[0] - 3 for child in tree[1:]) % 3,)
    return (tree[0], *(reduce_once(child) for child in tree[1:]))


def value(tree: recursive.Tree) -> int:
    return tree[0] - 3 if len(tree) == 1 else sum(map(value, tree[1:])) % 3


@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_target_is_rederived(form: dict[str, Any], order: str) -> None:
    for source, _ in check_trees("c3", order, reduce_once, **form):
        for node in recursive.nodes(source):
            assert node[0] == PLUS if len(node) > 1 else node[0] in (3, 4, 5)
        assert value(reduce_once(source)) == value(source)  # a step changes the expression, not its value
