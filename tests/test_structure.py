"""Heap indices, distances, and the array forms of tree operations, against plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ape_cli import structure, trees
from ape_cli.errors import UsageError


def steps(heap: int) -> list[int]:
    """The path from the root, by repeated halving."""
    path = []
    while heap > 1:
        path.append(heap % 2)
        heap //= 2
    return path[::-1]


def test_level_and_bit_length_at_the_edges() -> None:
    values = [0, 1, 2, 3, 4, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**54 - 1, 2**62, 2**63 - 1]
    for array in (np.array(values, dtype=np.int64), torch.tensor(values)):
        assert structure.bit_length(array).tolist() == [v.bit_length() for v in values]
        assert structure.level(array).tolist() == [max(0, v.bit_length() - 1) for v in values]


def test_tree_distance_is_the_length_of_the_path() -> None:
    tree = structure.parse("tree(2)")
    heaps = torch.tensor([0, *range(1, 64), 2**62, 2**63 - 1, 2**40 + 12345])
    table = tree.distance(heaps[:, None], heaps[None, :])
    for i, x in enumerate(heaps.tolist()):
        for j, y in enumerate(heaps.tolist()):
            a, b = steps(x), steps(y)
            shared = 0
            while shared < min(len(a), len(b)) and a[shared] == b[shared]:
                shared += 1
            assert table[i, j] == len(a) + len(b) - 2 * shared, (x, y)


def test_distances_worked_out_by_hand() -> None:
    tree, seq = structure.parse("tree(2)"), structure.parse("seq")
    by_hand = {(2, 3): 2, (4, 5): 2, (4, 6): 4, (1, 7): 2, (4, 2): 1}
    for (x, y), steps_apart in by_hand.items():
        assert int(tree.distance(torch.tensor(x), torch.tensor(y))) == steps_apart
    assert int(tree.distance(torch.tensor(0), torch.tensor(1))) == 0  # SOS stands at the root
    assert int(seq.distance(torch.tensor(0), torch.tensor(5))) == 5


def test_unknown_structures_are_refused() -> None:
    with pytest.raises(UsageError, match=r"allowed: seq, tree\(2\)"):
        structure.parse("forest")


def test_linearisations_of_deep_trees_use_the_long_way() -> None:
    """A path of 60 steps does not fit into one key; the order is the same rule."""
    heap = np.array([2**k for k in range(61)] + [2**k + 1 for k in range(1, 61)])
    row = np.zeros(heap.size, dtype=np.int64)
    breadth = heap[trees.linearise(row, heap, "breadth")]
    assert (np.diff(breadth) > 0).all()
    depth = heap[trees.linearise(row, heap, "depth")].tolist()
    assert depth == [2**k for k in range(61)] + [2**k + 1 for k in range(60, 0, -1)]


def test_subtree_operations_on_paths() -> None:
    heap = np.arange(1, 128)
    for root in (1, 2, 5, 13):
        path = steps(root)
        inside = [steps(h)[: len(path)] == path for h in heap.tolist()]
        assert trees.below(heap, np.array(root)).tolist() == inside
        below = heap[inside]
        assert [steps(h) for h in trees.reroot(below, root).tolist()] == [steps(h)[len(path) :] for h in below.tolist()]
        assert (trees.reroot(trees.graft(heap, root), root) == heap).all()
        assert [steps(h) for h in trees.graft(heap, root).tolist()] == [path + steps(h) for h in heap.tolist()]
    assert [steps(h) for h in trees.mirror(heap).tolist()] == [[1 - b for b in steps(h)] for h in heap.tolist()]
