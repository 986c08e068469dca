"""list-ops and list-ops-tree: values re-derived by recursion, and the two forms hold the same rows."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ape_cli import tasks
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


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_both_forms_hold_the_same_rows(form: dict[str, Any], every: bool) -> None:
    of = {"count": 300, "split": "validation", "intermediate": every, **form}
    for one, other in zip(rows("list-ops", **of)[1], rows("list-ops-tree", **of)[1], strict=True):
        assert read_line(one["source"]) == read_nodes(other, form.get("arguments", 5))
        assert one["size"] == other["size"]
        assert Counter(one["target_ids"]) == Counter(other["target_ids"])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[MIN 3 1 2 ]", "1"),
        ("[MAX 3 1 2 ]", "3"),
        ("[MED 9 1 2 ]", "2"),
        ("[MED 9 1 2 4 ]", "3"),  # (2 + 4) / 2
        ("[MED 9 1 2 5 ]", "3"),  # 3.5, rounded down
        ("[MED 0 1 ]", "0"),  # 0.5, rounded down
        ("[MED 0 0 1 7 ]", "0"),
        ("[SM 9 9 9 ]", "7"),
        ("[SM 5 5 ]", "0"),
        ("[MIN 9 [MAX 2 8 [SM 4 4 4 ] ] 5 [MED 7 7 3 ] ]", "2 8 7 5"),
        ("[MAX [MIN [MIN 8 9 ] 7 ] 1 ]", "8 7 7"),
        ("[SM [SM 1 1 ] [SM 2 2 ] [SM [SM 1 2 ] 4 ] ]", "2 4 3 7 3"),
    ],
)
def test_by_hand(text: str, values: str) -> None:
    """Through `answer` and `store`, with other trees before and after it."""
    task = tasks.make("list-ops", intermediate=True, arguments=5)
    lines = [[(1, "MIN"), (2, "9"), (3, "4")], heaps(read_line(text.split())), [(1, "SM"), (2, "4"), (3, "4")]]
    number = {name.strip("["): i for i, name in enumerate(task.id_names)}
    pairs = [pair for line in lines for pair in sorted(line)]
    source = tasks.Source(
        offsets=np.cumsum([0, *map(len, lines)]),
        position=np.array([place for place, _ in pairs]),
        symbol=np.array([number[name] for _, name in pairs]),
        size=np.array([1, recursive.depth(read_line(text.split())), 1]),
    )
    for found, expected in ((source, text), (task.target(source), values)):
        stored = task.store(found)
        middle = stored.symbol[stored.offsets[1] : stored.offsets[2]]
        assert " ".join(task.id_names[i] for i in middle) == expected


def heaps(tree: Nested, heap: int = 1) -> list[tuple[int, str]]:
    below = [heaps(child, 5 * (heap - 1) + 1 + c) for c, child in enumerate(tree[1:], 1)]
    return [(heap, tree[0]), *itertools.chain(*below)]


def test_laws_of_the_operators() -> None:
    """The order of arguments does not matter, and MIN <= MED <= MAX."""
    task = tasks.make("list-ops-tree", arguments=4)
    every = list(itertools.product(range(4, 8), repeat=4))
    results: dict[str, list[int]] = {}
    for operator in ("MIN", "MAX", "MED", "SM"):
        symbol = [[task.id_names.index(operator), *(3 + digit for digit in digits)] for digits in every]
        count = len(every)
        source = tasks.Source(
            np.arange(count + 1) * 5,
            np.tile([1, 2, 3, 4, 5], count),
            np.array(symbol).ravel(),
            np.ones(count, dtype=int),
        )
        results[operator] = (task.target(source).symbol - 3).tolist()
        by_content: dict[tuple[int, ...], set[int]] = {}
        for digits, result in zip(every, results[operator], strict=True):
            by_content.setdefault(tuple(sorted(digits)), set()).add(result)
        assert all(len(found) == 1 for found in by_content.values())
    assert all(a <= b <= c for a, b, c in zip(results["MIN"], results["MED"], results["MAX"], strict=True))


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


def test_structures_and_symbols() -> None:
    tree, line = (tasks.make(name, arguments=7) for name in ("list-ops-tree", "list-ops"))
    assert (tree.structure, line.structure) == ("tree(7)", "seq")
    assert tree.id_names[3:] == [*"0123456789", "MIN", "MAX", "MED", "SM"]
    assert line.id_names[3:] == [*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]"]
    assert (tree.title, line.title) == ("list-ops-tree-breadth", "list-ops")
