"""tree-convert: targets re-derived by parsers and writers with plain recursion, and what the notations share."""

from __future__ import annotations

from itertools import chain

import pytest

from ape_cli.core.vocabulary import SPLITS
from ape_cli.tasks.tree_convert import NOTATIONS
from tests import recursive
from tests.tasks.contract import rows

# each notation is read and written, from and to itself and another one
PAIRS = [(a, b) for i, a in enumerate(NOTATIONS) for b in (a, NOTATIONS[i - 1])]


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
    """Both sides are the tree of `tree-copy` in the same row of the same split, which a recursion writes."""
    form = {"branching": branching, "depth_mean": 3}
    for split in SPLITS:
        task, found = rows("tree-convert", split=split, count=200, **{"from": source, "to": target}, **form)
        for row, copied in zip(found, rows("tree-copy", split=split, count=200, **form)[1], strict=True):
            tree = recursive.build(copied["source"], copied["source_positions"], branching)
            assert row["source"] == write(tree, source)
            assert row["target"] == write(tree, target)
            assert row["size"] == recursive.depth(tree)
    assert (task.structure, task.order, task.title) == ("seq", None, "tree-convert")
    assert ("(" in task.id_names) == ("infix" in (source, target))
