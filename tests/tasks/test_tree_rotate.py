"""tree-rotate: the mirror image, at every depth."""

from __future__ import annotations

import pytest

from ape_cli import tasks
from tests import recursive
from tests.tasks.contract import check_trees


@pytest.mark.parametrize("order", ["breadth", "depth"])
def test_target_is_rederived(order: str) -> None:
    found = check_trees("tree-rotate", order, recursive.mirror)
    roots_only = [(t[0], *t[:0:-1]) for t, _ in found]  # the mistake: only the root's children swapped
    assert sum(recursive.mirror(t) != r for (t, _), r in zip(found, roots_only, strict=True)) > len(found) / 2


def test_it_is_its_own_inverse() -> None:
    from ape_cli import trees

    row = tasks.make("tree-rotate").sample(rows=range(500), split="train", seed=1)
    heap = row["source_positions"].combine_chunks().values.to_numpy().astype("int64")
    assert (trees.mirror(trees.mirror(heap)) == heap).all()
    assert (trees.mirror(heap) != heap)[heap > 1].all()
