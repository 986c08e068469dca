"""Read documents in tests, and compare trees with plain recursion."""

from __future__ import annotations

import pytest

from ape_cli.storage import tree_formats
from ape_cli.storage.tree_formats import ParsedTree

Nested = tuple[str, str, tuple]  # kind, token, children

NEEDS = {"conllu": "conllu", "html": "lxml"}
NEEDS |= dict.fromkeys(("tree-sitter", "tree-sitter-javascript"), "tree_sitter")


def parsed(name: str, text: str | bytes, unit: str | None = None) -> list[ParsedTree]:
    """Returns the trees of a document, after a check of the laws that all trees follow."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    kind = tree_formats.load(name)
    content = text.encode() if isinstance(text, str) else text
    found = list(kind.trees(content, tree_formats.chosen_unit(name, kind, unit)))
    for tree in found:
        check_laws(tree)
    return found


def check_laws(tree: ParsedTree) -> None:
    """Checks that the nodes are in pre-order, and that the ranks of siblings are 0, 1, …"""
    size, ranks = len(tree.parent), tree.ranks()
    assert size == len(ranks) == len(tree.kind) == len(tree.token) > 0
    assert (tree.parent[0], ranks[0]) == (-1, 0)
    assert all(0 <= parent < number for number, parent in enumerate(tree.parent) if number)
    assert all(tree.kind) and all(tree.token)  # noqa: PT018
    way = [0]  # from the root to the node before, in pre-order
    seen: dict[int, int] = {}
    for number in range(1, size):
        while way[-1] != tree.parent[number]:
            way.pop()  # fails if the parent is not on the way, so that this is no pre-order
        way.append(number)
        assert ranks[number] == seen.get(tree.parent[number], 0)
        seen[tree.parent[number]] = ranks[number] + 1


def nested(tree: ParsedTree, root: int = 0) -> Nested:
    """Returns a tree as nested tuples. The children are found by their parent and sorted by their rank."""
    ranks = tree.ranks()
    below = sorted((ranks[n], n) for n in range(len(tree.parent)) if tree.parent[n] == root)
    return (tree.kind[root], tree.token[root], tuple(nested(tree, n) for _, n in below))


def flat(root: Nested) -> list[tuple[int, str, str]]:
    """Returns (depth, kind, token) of each node in pre-order, with recursion. It tells the tree completely."""
    kind, token, children = root
    return [(0, kind, token), *((depth + 1, k, t) for child in children for depth, k, t in flat(child))]


def depths(tree: ParsedTree) -> list[tuple[int, str, str]]:
    """Returns (depth, kind, token) of each node of a parsed tree."""
    found: list[int] = []
    for parent in tree.parent:
        found.append(found[parent] + 1 if parent >= 0 else 0)
    return list(zip(found, tree.kind, tree.token, strict=True))
