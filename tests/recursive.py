"""A simple, slow implementation of trees with plain recursion, as a reference for tests.

A tree is a nested tuple, (symbol,) or (symbol, child, ...). A binarised tree is (symbol, left, right), where left and
right are binarised trees or None. This module shares no code with the package, so that it is an independent check.
"""

from __future__ import annotations

from typing import Any

Tree = tuple[Any, ...]
Binary = tuple[Any, Any, Any]


def build(symbols: list[Any], positions: list[int], k: int = 2, *, full: bool = True) -> Tree:
    """Builds a nested tree from heap indices. Fails if a node has no parent, or lacks one of its k children.

    If the tree is not `full`, nodes may have fewer children. Then it fails if one has no earlier sibling.
    """
    nodes = dict(zip(positions, symbols, strict=True))
    assert len(nodes) == len(positions), "two nodes at one place"

    def at(heap: int) -> Tree:
        symbol, places = nodes.pop(heap), children(heap, k)
        there = [place for place in places if place in nodes]
        assert there == places[: k if full and there else len(there)], "a child is missing"
        return (symbol, *map(at, there))

    tree = at(1)
    assert not nodes, "nodes without a parent"
    return tree


def children(heap: int, k: int) -> list[int]:
    """Returns the heap indices of a node's children. Before them come the root and the children of 1 .. heap - 1."""
    return [1 + k * (heap - 1) + c for c in range(1, k + 1)]


def pre_order(tree: Tree, k: int = 2, heap: int = 1) -> list[tuple[int, int]]:
    """Returns (symbol, heap index) of each node in pre-order."""
    found = [(tree[0], heap)]
    for child, place in zip(tree[1:], children(heap, k), strict=False):
        found += pre_order(child, k, place)
    return found


def level_order(tree: Tree, k: int = 2) -> list[tuple[int, int]]:
    """Returns (symbol, heap index) of each node, level by level, from left to right."""
    found, level = [], [(tree, 1)]
    while level:
        found += [(node[0], heap) for node, heap in level]
        level = [pair for node, heap in level for pair in zip(node[1:], children(heap, k), strict=False)]
    return found


def linear(tree: Tree, order: str, k: int = 2) -> list[tuple[int, int]]:
    return pre_order(tree, k) if order == "depth" else level_order(tree, k)


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree[1:])) if tree[1:] else 0


def mirror(tree: Tree) -> Tree:
    return (tree[0], *(mirror(child) for child in reversed(tree[1:])))


def nodes(tree: Tree) -> list[Tree]:
    """Returns every subtree. The whole tree comes first."""
    return [tree, *(found for child in tree[1:] for found in nodes(child))]


def symbols(tree: Tree) -> list[int]:
    return [node[0] for node in nodes(tree)]


# Binarised ---------------------------------------------------------------------------------------


def binarise(tree: Tree) -> Binary:
    """Binarises a tree: the left child is the first child, the right child is the next sibling."""

    def chain(siblings: tuple[Tree, ...]) -> Binary | None:
        return (siblings[0][0], chain(siblings[0][1:]), chain(siblings[1:])) if siblings else None

    found = chain((tree,))
    assert found is not None
    return found


def unbinarise(tree: Binary) -> Tree:
    def siblings(node: Binary | None) -> tuple[Tree, ...]:
        return () if node is None else ((node[0], *siblings(node[1])), *siblings(node[2]))

    (found,) = siblings(tree)
    return found


def build_binary(symbols: list[int], positions: list[int]) -> Binary:
    """Builds a binarised tree from heap indices. Fails if a node has no parent."""
    nodes = dict(zip(positions, symbols, strict=True))
    assert len(nodes) == len(positions), "two nodes at one place"

    def at(heap: int) -> Binary | None:
        return (nodes.pop(heap), at(2 * heap), at(2 * heap + 1)) if heap in nodes else None

    tree = at(1)
    assert tree is not None
    assert not nodes, "nodes without a parent"
    return tree


def linear_binary(tree: Binary, order: str) -> list[tuple[int, int]]:
    """Returns (symbol, heap index) of each node, in pre-order (`order` is "depth") or level by level."""
    agenda, found = [(tree, 1)], []
    while agenda:
        (symbol, left, right), heap = agenda.pop(0)
        found.append((symbol, heap))
        below = [(node, place) for node, place in ((left, 2 * heap), (right, 2 * heap + 1)) if node]
        agenda = below + agenda if order == "depth" else agenda + below
    return found
