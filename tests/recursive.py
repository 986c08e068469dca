"""Trees the slow and obvious way: nested tuples (symbol,) or (symbol, left, right), plain recursion.

Shares no code with the package, so that it can vouch for it.
"""

from __future__ import annotations

from typing import Any

Tree = tuple[Any, ...]


def build(symbols: list[int], positions: list[int]) -> Tree:
    """A nested tree from heap indices; fails where a node has one child, or no parent."""
    nodes = dict(zip(positions, symbols, strict=True))
    assert len(nodes) == len(positions), "two nodes at one place"

    def at(heap: int) -> Tree:
        symbol = nodes.pop(heap)
        if 2 * heap in nodes or 2 * heap + 1 in nodes:
            return (symbol, at(2 * heap), at(2 * heap + 1))
        return (symbol,)

    tree = at(1)
    assert not nodes, "nodes without a parent"
    return tree


def pre_order(tree: Tree, heap: int = 1) -> list[tuple[int, int]]:
    """(symbol, heap index) of each node, a node before its children, left before right."""
    found = [(tree[0], heap)]
    for i, child in enumerate(tree[1:]):
        found += pre_order(child, 2 * heap + i)
    return found


def level_order(tree: Tree) -> list[tuple[int, int]]:
    """(symbol, heap index) of each node, level by level, from the left."""
    found, level = [], [(tree, 1)]
    while level:
        found += [(node[0], heap) for node, heap in level]
        level = [(child, 2 * heap + i) for node, heap in level for i, child in enumerate(node[1:])]
    return found


def linear(tree: Tree, order: str) -> list[tuple[int, int]]:
    return pre_order(tree) if order == "depth" else level_order(tree)


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree[1:])) if tree[1:] else 0


def mirror(tree: Tree) -> Tree:
    return (tree[0], *(mirror(child) for child in reversed(tree[1:])))


def nodes(tree: Tree) -> list[Tree]:
    """Every subtree, the whole one first."""
    return [tree, *(found for child in tree[1:] for found in nodes(child))]


def symbols(tree: Tree) -> list[int]:
    return [node[0] for node in nodes(tree)]
