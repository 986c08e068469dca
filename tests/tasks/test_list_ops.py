"""list-ops and list-ops-tree: values re-derived by recursion."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ape_cli.core.vocabulary import SPLITS
from tests import recursive
from tests.tasks.contract import check_uniform, count_of, in_orders, rows, sides

Nested = tuple[Any, ...]  # (name, argument, ...) for an operator and (name,) for a digit
FORMS: list[dict[str, Any]] = [
    {"depth_mean": 3, "depth_std": 1},
    {"depth_mean": 5, "depth_std": 1, "arguments": 2},
    {"depth_mean": 2, "depth_std": 0.5, "arguments": 10},
]


def value(tree: Nested) -> int:
    name, *arguments = tree
    if not arguments:
        return int(name)
    found = [value(argument) for argument in arguments]
    return {
        "MIN": lambda: min(found),
        "MAX": lambda: max(found),
        "MED": lambda: int(statistics.median(found)),
        "SM": lambda: int(str(sum(found))[-1]),
    }[name]()


def closing(tree: Nested) -> list[Nested]:
    """The operators in the order in which their brackets close."""
    return [*(found for child in tree[1:] for found in closing(child)), tree] if tree[1:] else []


def read(tokens: Iterator[str]) -> Nested | None:
    """Reads one argument of a list, or None for its closing bracket."""
    token = next(tokens)
    if token == "]":
        return None
    if not token.startswith("["):
        return (token,)
    return (token.removeprefix("["), *iter(lambda: read(tokens), None))


def read_line(names: list[str]) -> Nested:
    tokens = iter(names)
    tree = read(tokens)
    assert tree is not None
    assert next(tokens, None) is None
    return tree


def read_nodes(row: dict[str, Any], k: int) -> Nested:
    return recursive.build(row["source"], row["source_positions"], k, full=False)


def places(tree: Nested, k: int, order: str, heap: int = 1) -> list[tuple[int, Nested]]:
    """The operators of a tree with their heap indices."""
    if not tree[1:]:
        return []
    below = [places(child, k, "depth", k * (heap - 1) + 1 + c) for c, child in enumerate(tree[1:], 1)]
    found = [(heap, tree), *itertools.chain(*below)]
    return sorted(found, key=lambda pair: pair[0]) if order == "breadth" else found


def check_tree(tree: Nested, row: dict[str, Any], k: int) -> None:
    """The drawn depth, 2..k arguments, and a digit for each leaf."""
    assert recursive.depth(tree) == row["size"]
    for name, *arguments in recursive.nodes(tree):
        assert name in ({"MIN", "MAX", "MED", "SM"} if arguments else set("0123456789"))
        assert not arguments or 2 <= len(arguments) <= k


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_lists_are_rederived(form: dict[str, Any], every: bool) -> None:
    for split in SPLITS:
        for row in rows("list-ops", split=split, count=count_of(form, FORMS), intermediate=every, **form)[1]:
            tree = read_line(row["source"])
            check_tree(tree, row, form.get("arguments", 5))
            expected = [value(part) for part in closing(tree)]
            assert [int(name) for name in row["target"]] == (expected if every else expected[-1:])


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("form", "order"), in_orders(FORMS), ids=str)
def test_trees_are_rederived(form: dict[str, Any], order: str, every: bool) -> None:
    k, (source_order, target_order) = form.get("arguments", 5), sides(order)
    for row in rows("list-ops-tree", order, count=count_of(form, FORMS), intermediate=every, **form)[1]:
        tree = read_nodes(row, k)
        check_tree(tree, row, k)
        expected = [(place, value(part)) for place, part in places(tree, k, target_order)]
        answer = zip(row["target_positions"], map(int, row["target"]), strict=True)
        assert list(answer) == (expected if every else expected[:1])
        heaps = row["source_positions"]
        inner = [place for place, name in zip(heaps, row["source"], strict=True) if not name.isdecimal()]
        assert inner == [place for place, _ in places(tree, k, source_order)]
        assert heaps == sorted(heaps) or source_order == "depth"


def test_what_is_drawn_is_uniform() -> None:
    """Digits, operators, numbers of arguments, the place of the deep argument, and depths of the others."""
    k = 4
    trees = [read_nodes(row, k) for row in rows("list-ops-tree", depth_mean=4, depth_std=0, arguments=k)[1]]
    every = [node for tree in trees for node in recursive.nodes(tree)]
    operators = [node for node in every if node[1:]]
    pairs = [tuple(map(recursive.depth, tree[1:])) for tree in trees if len(tree) == 3]  # roots with two arguments
    check_uniform(Counter(node[0] for node in every if not node[1:]), 10)
    check_uniform(Counter(node[0] for node in operators), 4)
    check_uniform(Counter(len(node) - 1 for node in operators), 3)
    check_uniform(Counter((tree[0], len(tree)) for tree in trees), 12)  # together: they are independent
    check_uniform(Counter(a == 3 for a, b in pairs if a != b), 2)
    check_uniform(Counter(min(pair) for pair in pairs), 4)
