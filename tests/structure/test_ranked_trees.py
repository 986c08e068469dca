"""Trees as parents and ranks: heap indices, mirrors and subtrees against plain recursion."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ape_cli.structure.trees import RankedTrees
from tests import recursive


def random_tree(rng: random.Random, nodes: int, most: int) -> recursive.Tree:
    """A tree of about so many nodes, whose nodes have at most `most` children. Labels are numbers in pre-order."""
    budget = [nodes]

    def grow() -> recursive.Tree:
        budget[0] -= 1
        children = rng.randint(0, most) if budget[0] > 0 else 0
        return (0, *(grow() for _ in range(children)))

    return numbered(grow())


def numbered(tree: recursive.Tree) -> recursive.Tree:
    count = iter(range(10_000))

    def visit(node: recursive.Tree) -> recursive.Tree:
        return (next(count), *map(visit, node[1:]))

    return visit(tree)


def flat(trees: list[recursive.Tree]) -> RankedTrees:
    """The trees as arrays, by recursion."""
    parents: list[int] = []
    ranks: list[int] = []
    offsets = [0]
    for tree in trees:
        first = len(parents)

        def visit(node: recursive.Tree, parent: int, rank: int, first: int = first) -> None:
            number = len(parents) - first
            parents.append(parent)
            ranks.append(rank)
            for place, child in enumerate(node[1:]):
                visit(child, number, place)

        visit(tree, -1, 0)
        offsets.append(len(parents))
    return RankedTrees(np.array(offsets), np.array(parents), np.array(ranks))


@pytest.fixture(scope="module")
def trees() -> list[recursive.Tree]:
    rng = random.Random(1)
    found = [random_tree(rng, rng.randint(1, 12), 3) for _ in range(400)]
    return [tree for tree in found if recursive.depth(tree) <= 12]


def test_heap_indices(trees: list[recursive.Tree]) -> None:
    found = flat(trees)
    for k in (3, 5):
        expected = [place for tree in trees for _, place in recursive.pre_order(tree, k)]
        assert found.heap(k).tolist() == expected
    binary = [
        place
        for tree in trees
        for _, place in sorted(recursive.linear_binary(recursive.binarise(tree), "depth"), key=lambda pair: pair[0])
    ]
    assert found.heap(None).tolist() == binary


def test_mirror_reverses_the_children_that_are_there(trees: list[recursive.Tree]) -> None:
    found = flat(trees)
    mirrored = found.mirrored()
    heap = mirrored.heap(3)
    for row, tree in enumerate(trees):
        own = slice(found.offsets[row], found.offsets[row + 1])
        expected = dict(recursive.pre_order(recursive.mirror(tree), 3))
        assert dict(enumerate(heap[own].tolist())) == expected
    assert (mirrored.mirrored().rank == found.rank).all()
    assert (mirrored.rank != found.rank).any()


def test_subtrees(trees: list[recursive.Tree]) -> None:
    found, rng = flat(trees), random.Random(2)
    chosen = [rng.randrange(len(recursive.nodes(tree))) for tree in trees]
    subtrees, place = found.subtrees(found.offsets[:-1] + np.array(chosen))
    heap = subtrees.heap(3)
    for row, (tree, node) in enumerate(zip(trees, chosen, strict=True)):
        own = slice(subtrees.offsets[row], subtrees.offsets[row + 1])
        numbers = (place[own] - found.offsets[row]).tolist()
        assert list(zip(numbers, heap[own].tolist(), strict=True)) == recursive.pre_order(
            recursive.nodes(tree)[node], 3
        )


def test_the_deepest_paths_that_heap_indices_hold() -> None:
    """62 levels of a binarised tree: a chain of first children, and one node with 62 children."""
    chain = RankedTrees(np.array([0, 63]), np.arange(-1, 62), np.zeros(63, dtype=np.int64))
    assert chain.heap(None)[-1] == 2**62
    wide = RankedTrees(np.array([0, 63]), np.array([-1] + [0] * 62), np.array([0, *range(62)]))
    assert wide.heap(None)[-1] == (2**62 + 2**62 - 1) - 2**61  # one step to the left, then 61 to the right
