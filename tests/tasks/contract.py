"""The contract of tasks: 500 rows, each re-derived from its source by plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from ape_cli import tasks
from ape_cli.core import ragged
from ape_cli.core.vocabulary import SPLITS
from tests import recursive

ROWS = 500
ORDERS = ["breadth", "depth", "breadth-to-depth", "depth-to-breadth"]  # names of linearisations, as in tables
FORMS: list[dict[str, Any]] = [  # of trees
    {},
    {"branching": 3, "depth_mean": 4, "depth_std": 0.5},
    {"branching": 5, "depth_mean": 2, "depth_std": 0.5},
    {"binarise": True},
    {"branching": 3, "depth_mean": 4, "depth_std": 0.5, "binarise": True},
]


def count_of(form: dict[str, Any], forms: list[dict[str, Any]] = FORMS) -> int:
    """The number of rows of a form that are checked: all of the first one, which is the usual one, and fewer of others.

    >>> count_of({}), count_of({"binarise": True})
    (500, 100)
    """
    return ROWS if form == forms[0] else ROWS // 5


def in_splits(forms: Sequence[Any]) -> list[tuple[Any, str]]:
    """The usual form in every split, and each other form in one split. Splits differ in their random stream alone.

    >>> [split for _, split in in_splits(FORMS)]
    ['train', 'validation', 'test', 'train', 'validation', 'test', 'train']
    """
    return [(forms[0], split) for split in SPLITS] + list(zip(forms[1:], cycle(SPLITS), strict=False))


def in_orders(forms: Sequence[Any]) -> list[tuple[Any, str]]:
    """The usual form in every order. The other forms alternate between the two mixed orders.

    >>> [order for _, order in in_orders(FORMS)][4:]
    ['breadth-to-depth', 'depth-to-breadth', 'breadth-to-depth', 'depth-to-breadth']
    """
    return [(forms[0], order) for order in ORDERS] + list(zip(forms[1:], cycle(ORDERS[2:]), strict=False))


def sides(order: str) -> tuple[str, str]:
    """The orders of source and target.

    >>> sides("depth"), sides("breadth-to-depth")
    (('depth', 'depth'), ('breadth', 'depth'))
    """
    source, *target = order.split("-to-")
    return source, target[0] if target else source


def make(name: str, order: str | None = None, **options: Any) -> tasks.Task:
    """A task, by the name of its linearisation."""
    if order is None:
        return tasks.make(name, **options)
    source, target = sides(order)
    return tasks.make(name, target, source, **options)


def rows(name: str, order: str | None = None, *, split: str = "train", count: int = ROWS, **options: Any):
    """A task and its rows, with the names of the ids as `source` and `target`."""
    task = make(name, order, **options)
    table, names = task.sample(rows=range(count), split=split, seed=42).to_pylist(), task.id_names
    assert task.row_sizes(rows=range(count), split=split, seed=42).tolist() == [row["size"] for row in table]
    for row in table:
        for side in ("source", "target"):
            row[side] = [names[i] for i in row[f"{side}_ids"]]
    return task, table


def source_of(task: Any, texts: Sequence[str], sizes: Sequence[int] = ()) -> tasks.Source:
    """Rows of named symbols, whose positions count from 0. A size is the number of symbols if it is not given."""
    ids = [[task.id_names.index(name) for name in text.split()] for text in texts]
    offsets = ragged.offsets_of(np.array(list(map(len, ids))))
    return tasks.Source(
        offsets, ragged.indices_of(offsets), np.concatenate(ids), np.array(sizes or list(map(len, ids)))
    )


def names_of(task: Any, target: tasks.Tokens) -> list[str]:
    """The symbols of each row of a target, as text. Fails if positions do not count from 0."""
    assert (target.position == ragged.indices_of(target.offsets)).all()
    rows_of_ids = np.split(target.symbol, target.offsets[1:-1])
    return [" ".join(task.id_names[i] for i in row) for row in rows_of_ids]


def check_uniform(counts: Counter[Any], kinds: int) -> None:
    """Check by chi-square at p = 1e-4 that all kinds occur with the same frequency.

    The limit is Wilson and Hilferty's approximation, which is 19 for three kinds and 34 for ten.
    """
    mean, free = counts.total() / kinds, kinds - 1
    assert len(counts) == kinds
    limit = free * (1 - 2 / (9 * free) + 3.72 * (2 / (9 * free)) ** 0.5) ** 3
    assert sum((n - mean) ** 2 / mean for n in counts.values()) < limit


def check_splits_are_apart(name: str, order: str | None = None, **options: Any) -> None:
    """Check that `ROWS` rows of each split have no source in common.

    The options should leave few sources, so that the splits would meet if they were drawn alike.
    """
    held = [
        {(str(row["source_positions"]), str(row["source_ids"])) for row in rows(name, order, split=split, **options)[1]}
        for split in SPLITS
    ]
    assert min(map(len, held)) > 20
    assert sum(map(len, held)) == len(set().union(*held))


def linear(tree: recursive.Tree, side: str, k: int, binary: bool) -> list[tuple[int, int]]:
    """The ids and positions of a k-ary tree, or of the binary tree that it becomes, in the order of a side."""
    return recursive.linear_binary(recursive.binarise(tree), side) if binary else recursive.linear(tree, side, k)


def check_trees(
    name: str, order: str, expected: Callable[[recursive.Tree], recursive.Tree], **options: Any
) -> list[tuple[recursive.Tree, dict[str, Any]]]:
    """Check that source and target are in the given orders, and that the target is correct.

    Returns the sources as they were drawn, not binarised.
    """
    k, binary = options.get("branching", 2), options.get("binarise", False)
    index = 2 if name == "tree-ops" else k  # tree-ops: the root has two extra children

    source_order, target_order = sides(order)
    found = []
    count = count_of(options) if options in FORMS else ROWS
    for row in rows(name, order, count=count, **options)[1]:
        ids, positions = row["source_ids"], row["source_positions"]
        if binary:
            source = recursive.unbinarise(recursive.build_binary(ids, positions))
        else:
            source = recursive.build(ids, positions, k) if index == k else build_operation(ids, positions, k)
        assert {len(node) - 1 for node in recursive.nodes(source)[1:]} <= {0, k}
        assert list(zip(ids, positions, strict=True)) == linear(source, source_order, k, binary)
        assert row["size"] == (max(positions).bit_length() - 1 if binary else recursive.depth(source))
        answer = list(zip(row["target_ids"], row["target_positions"], strict=True))
        assert answer == linear(expected(source), target_order, k, binary)
        found.append((source, row))
    return found


def build_operation(ids: list[int], positions: list[int], k: int) -> recursive.Tree:
    """operator(index, tree): these two are in the place of the first two children of a k-ary root."""
    missing = [place for place in recursive.children(1, k) if place > 3]
    operator, *children = recursive.build(ids + [0] * len(missing), positions + missing, k)
    return (operator, *children[:2])
