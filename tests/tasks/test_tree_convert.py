"""tree-convert: targets re-derived by parsers and writers with plain recursion, and what the notations share."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from ape_cli.core.vocabulary import SPLITS
from ape_cli.tasks.tree_convert import NOTATIONS
from tests import recursive
from tests.tasks.contract import ROWS, rows

# each notation is read and written, from and to itself and another one
PAIRS = [(a, b) for i, a in enumerate(NOTATIONS) for b in (a, NOTATIONS[i - 1])]


def parse(line: list[str], notation: str, k: int) -> recursive.Tree:
    """Reads a tree from its symbols alone: x0, x1, ... are leaves, f0, f1, ... are operators."""
    left = list(line)

    def prefix() -> recursive.Tree:
        name = left.pop(0)
        return (name, *(prefix() for _ in range(k))) if name[0] == "f" else (name,)

    def infix() -> recursive.Tree:
        name = left.pop(0)
        if name != "(":
            return (name,)
        first, operator = infix(), left.pop(0)
        tree = (operator, first, *(infix() for _ in range(k - 1)))
        assert left.pop(0) == ")"
        return tree

    def postfix() -> recursive.Tree:
        stack: list[recursive.Tree] = []
        while left:
            name = left.pop(0)
            below = [stack.pop() for _ in range(k)] if name[0] == "f" else []
            stack.append((name, *reversed(below)))
        (tree,) = stack
        return tree

    def level() -> recursive.Tree:
        nodes: list[list[Any]] = [[name] for name in left]
        waiting = iter(nodes[1:])
        for node in nodes:
            if node[0][0] == "f":
                node += [next(waiting) for _ in range(k)]
        left.clear()

        def frozen(node: list[Any]) -> recursive.Tree:
            return (node[0], *map(frozen, node[1:]))

        assert next(waiting, None) is None
        return frozen(nodes[0])

    tree = {"prefix": prefix, "infix": infix, "postfix": postfix, "level": level}[notation]()
    assert not left, "symbols are left over"
    return tree


def write(tree: recursive.Tree, notation: str) -> list[str]:
    name, *children = tree
    if notation == "level":
        return [symbol for symbol, _ in recursive.level_order(tree, max(len(children), 1))]
    lines = [write(child, notation) for child in children]
    if notation == "infix" and children:
        return ["(", *lines[0], name, *chain(*lines[1:]), ")"]
    below = list(chain(*lines))
    return [*below, name] if notation == "postfix" else [name, *below]


@pytest.mark.parametrize("branching", [2, 3])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_target_is_rederived(source: str, target: str, branching: int) -> None:
    options = {"from": source, "to": target, "branching": branching, "depth_mean": 3}
    task, found = rows("tree-convert", count=ROWS if (source, branching) == ("infix", 2) else ROWS // 5, **options)
    for row in found:
        tree = parse(row["source"], source, branching)
        assert row["target"] == write(tree, target)
        assert parse(row["target"], target, branching) == tree
        assert row["size"] == recursive.depth(tree)
    assert (task.structure, task.order, task.title) == ("seq", None, "tree-convert")
    assert ("(" in task.id_names) == ("infix" in (source, target))


def test_the_trees_are_those_of_tree_copy() -> None:
    for notation, order in (("level", "breadth"), ("prefix", "depth")):
        _, lines = rows("tree-convert", count=300, **{"from": notation, "to": notation}, branching=3, depth_mean=3)
        _, trees = rows("tree-copy", order, count=300, branching=3, depth_mean=3)
        for line, tree in zip(lines, trees, strict=True):
            assert line["source_ids"] == line["target_ids"] == tree["source_ids"]


def test_no_tree_is_in_two_splits() -> None:
    found = []
    for split, notation in zip(SPLITS, ("prefix", "postfix", "infix"), strict=True):
        table = rows("tree-convert", split=split, count=1_000, depth_mean=3, **{"from": notation})[1]
        found.append({parse(row["source"], notation, 2) for row in table})
    assert min(map(len, found)) > 500
    assert sum(map(len, found)) == len(set().union(*found))
