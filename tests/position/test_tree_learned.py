"""Tree learned: the rows of nodes by hand and by loops, the depth of the table, and what it shares with `learned`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ape_cli import position
from ape_cli.core.errors import UsageError
from ape_cli.position.tree_learned import TreeLearned
from ape_cli.structure import Tree


def make(max_size: int = 4, structure: str = "tree(2)", **options: Any) -> TreeLearned:
    generator = torch.Generator().manual_seed(1)
    scheme = position.make("tree-learned", 16, 2, structure, max_size, generator=generator, **options)
    assert isinstance(scheme, TreeLearned)
    return scheme


def test_rows_by_hand() -> None:
    """SOS and the root share a row; with a table of depth 1, all nodes below left share its row."""
    at = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 11]])
    assert make().row(at).tolist() == [[0, 0, 1, 2, 3, 4, 5, 6, 10]]
    assert make(depth=1).row(at).tolist() == [[0, 0, 1, 2, 1, 1, 2, 2, 1]]


@pytest.mark.parametrize("branching", [2, 3])
def test_rows_by_loops(branching: int) -> None:
    """A node has the row of the first ancestor, or itself, that is not too deep."""
    heaps = range(1, Tree(branching).level_start(5))
    for depth in (1, 2, 3):
        last = sum(branching**level for level in range(depth + 1))
        expected = []
        for heap in heaps:
            node = heap
            while node > last:
                node = (node - 2) // branching + 1
            expected.append(node - 1)
        scheme = make(structure=f"tree({branching})", depth=depth)
        assert scheme.row(torch.tensor([list(heaps)]))[0].tolist() == expected
        assert len(scheme.table) == last


def test_vectors_start_as_those_of_learned() -> None:
    """Their length is the square root of D / 2."""
    wide = position.make("tree-learned", 512, 8, max_size=8, generator=torch.Generator().manual_seed(1))
    assert isinstance(wide, TreeLearned)
    assert float(wide.table.detach().norm(dim=1).mean()) == pytest.approx(256**0.5, rel=0.01)


def test_the_depth_of_the_table() -> None:
    """It is the size, or the greatest with at most 2,047 nodes: 10 levels of 2 branches, 6 of 3."""
    for structure, size, depth in (("tree(2)", 8, 8), ("tree(2)", 30, 10), ("tree(3)", 30, 6), ("tree(1000)", 3, 1)):
        scheme = make(size, structure)
        assert (scheme.depth, scheme.unique) == (depth, depth == size)
    assert make(12, depth=12).table.shape == (8191, 16)
    assert not make(12, depth=5).unique


def test_bad_depths_are_refused() -> None:
    for size, structure, depth, allowed in ((4, "tree(2)", 5, 4), (4, "tree(2)", -1, 4), (50, "tree(1000)", 2, 1)):
        with pytest.raises(UsageError, match=rf"bad depth[\s\S]*1 to {allowed}"):
            make(size, structure, depth=depth)
