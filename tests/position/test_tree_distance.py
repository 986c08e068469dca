"""Tree distance: another implementation, distances by hand and by loops over paths, and which tables act where."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.position.tree_distance import TreeDistance
from ape_cli.structure import Tree
from tests.position import nodes
from tests.position.golden import GOLDEN


def make(max_size: int = 4, structure: str = "tree(2)", heads: int = 3) -> TreeDistance:
    scheme = nodes.make("tree-distance", max_size, structure, heads)
    assert isinstance(scheme, TreeDistance)
    return scheme


def test_terms_of_another_implementation() -> None:
    """The greatest difference is 0. Theirs has one scalar for all distances above 3."""
    golden = GOLDEN["tree_distance"]
    scheme = make(max_size=2)
    with torch.no_grad():
        scheme.scalars[0] = torch.tensor(golden["scalars"], dtype=torch.float64)
    found = nodes.terms(scheme, golden["nodes"], golden["nodes"], (False, False))
    assert torch.equal(found, torch.tensor(golden["terms"], dtype=torch.float64))


def test_distances_by_hand() -> None:
    """From left-left (4): itself, its parent, its sibling, its child, right (3), right-right (7), the root and SOS."""
    found = make().kind(torch.tensor([4]), torch.tensor([4, 2, 5, 9, 3, 7, 1, 0]))
    assert found.tolist() == [0, 1, 2, 1, 3, 4, 2, 2]


@pytest.mark.parametrize("branching", [2, 3])
def test_distances_by_loops(branching: int) -> None:
    """All pairs of nodes down to depth 4 (depth 3 with three branches); those above 2 n share the last scalar."""
    heaps = list(range(Tree(branching).level_start(7 - branching)))
    for max_size in (1, 2, 9):
        scheme = make(max_size, f"tree({branching})")
        found = scheme.kind(torch.tensor(heaps)[:, None], torch.tensor(heaps)[None])
        expected = [[min(sum(nodes.steps(x, y, branching)), 2 * max_size) for y in heaps] for x in heaps]
        assert found.tolist() == expected
        assert scheme.scalars.shape[2] == 2 * max_size + 1


def test_encoder_decoder_and_cross_attention_have_their_own_scalars() -> None:
    """They are added after the scaling, to the scores of any queries, and start at 0.02 times a normal draw."""
    scheme = make()
    for part, causal in enumerate([(False, False), (True, True), (True, False)]):
        assert torch.equal(nodes.terms(scheme, [4], [4, 2, 5], causal)[:, 0], scheme.scalars[part, :, :3])
    wide = position.make("tree-distance", 128, 64, max_size=62, generator=torch.Generator().manual_seed(1))
    assert float(next(wide.parameters()).detach().std()) == pytest.approx(0.02, rel=0.02)
