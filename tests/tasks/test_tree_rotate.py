"""tree-rotate: the mirror image at every depth."""

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
    roots_only = [(t[0], *t[:0:-1]) for t, _ in found]  # the mistake: only the children of the root are exchanged
    assert sum(recursive.mirror(t) != r for (t, _), r in zip(found, roots_only, strict=True)) > len(found) / 2


@pytest.mark.parametrize("k", [2, 3, 4])
def test_it_is_its_own_inverse(k: int) -> None:
    """Nodes that stay in their place are in the middle of their level: middle children all the way down."""
    row = tasks.make("tree-rotate", branching=k, depth_mean=4).sample(rows=range(200), split="train", seed=1)
    heap = row["source_positions"].combine_chunks().values.to_numpy().astype("int64")
    assert (trees.mirror(trees.mirror(heap, k), k) == heap).all()
    assert set(heap[trees.mirror(heap, k) == heap].tolist()) <= ({3**d for d in range(11)} if k == 3 else {1})
