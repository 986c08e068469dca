"""Tree path: another implementation, steps by hand and by loops over paths, and the deepest trees."""

from __future__ import annotations

import pytest
import torch

from ape_cli.position.tree_path import TreePath
from ape_cli.structure import Tree
from tests.position import nodes
from tests.position.golden import GOLDEN


def make(max_size: int = 4, structure: str = "tree(2)", heads: int = 3) -> TreePath:
    scheme = nodes.make("tree-path", max_size, structure, heads)
    assert isinstance(scheme, TreePath)
    return scheme


def kinds(scheme: TreePath, queries: list[int], keys: list[int]) -> torch.Tensor:
    """The steps up and down of each pair. -> int64 [M, N, 2]"""
    kind = scheme.kind(torch.tensor(queries)[:, None], torch.tensor(keys)[None])
    return torch.stack([kind // (scheme.depth + 1), kind % (scheme.depth + 1)], dim=-1)


def test_terms_of_another_implementation() -> None:
    """The greatest difference is 0."""
    golden = GOLDEN["tree_path"]
    scheme = make(max_size=5)
    with torch.no_grad():
        for (up, down), scalars in zip(golden["pairs"], golden["scalars"], strict=True):
            scheme.scalars[0, :, 6 * up + down] = torch.tensor(scalars, dtype=torch.float64)
    found = nodes.terms(scheme, golden["nodes"], golden["nodes"], (False, False))
    assert torch.equal(found, torch.tensor(golden["terms"], dtype=torch.float64))


def test_steps_by_hand() -> None:
    """From left-left (4): itself, its parent, its sibling, its child, right (3), right-right (7), the root and SOS."""
    found = kinds(make(), [4], [4, 2, 5, 9, 3, 7, 1, 0])[0]
    assert found.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1], [2, 1], [2, 2], [2, 0], [2, 0]]


@pytest.mark.parametrize("branching", [2, 3])
def test_steps_by_loops(branching: int) -> None:
    """All pairs of nodes down to depth 4 (depth 3 with three branches); more than n steps count as n."""
    heaps = list(range(Tree(branching).level_start(7 - branching)))
    for max_size in (1, 2, 9):
        expected = [[[min(s, max_size) for s in nodes.steps(x, y, branching)] for y in heaps] for x in heaps]
        scheme = make(max_size, f"tree({branching})")
        assert kinds(scheme, heaps, heaps).tolist() == expected
        assert scheme.scalars.shape[2] == (max_size + 1) ** 2


def test_deep_nodes_of_trees_with_many_branches_have_kinds() -> None:
    """No path is longer than a heap index can hold, so a larger size needs no more scalars."""
    scheme = make(max_size=100, structure="tree(1000)")
    assert scheme.depth == 6
    assert kinds(scheme, [Tree(1000).level_start(6)], [1]).tolist() == [[[6, 0]]]
