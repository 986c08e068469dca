"""The task `tree-rotate`: the target is the mirror image of a tree.

Children are reversed at all depths; in binary trees this swaps left and right. This is how the paper describes the
task. Its authors' code has two other forms, which `mirror` selects: until April 2024 it reversed only the children of
the root, and since then it rotates trees as search trees are rotated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.core.ragged import rows_of
from ape_cli.core.rng import I64
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._trees import PlainTrees


@dataclass(frozen=True, kw_only=True)
class TreeRotate(PlainTrees):
    """Mirror a tree, mirror only its root, or rotate it as a search tree.

    `mirror` selects the operation:

    - `all` reverses the children of every node, as the paper says.
    - `root` reverses only the children of the root.
    - `search-tree` applies right rotations to binary trees: $f(p(l, r), x)$ becomes $p(l', f(r', x'))$, where $l'$ is
      $l$ rotated. A subtree whose left child is a leaf does not change.

    Raises `UsageError` if an option is out of range, or if the trees are not binary or too deep for a rotation.

    >>> task = TreeRotate(order="breadth", depth_mean=2, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f3(x3, f1(x5, x2))
    (['f3', 'x3', 'f1', 'x5', 'x2'], [1, 2, 3, 6, 7])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f3(f1(x2, x5), x3)
    (['f3', 'f1', 'x3', 'x2', 'x5'], [1, 2, 3, 4, 5])
    """

    summary = "the mirror image, recursively: f(x, g(y, z)) -> f(g(z, y), x)"
    answer_options = ("mirror",)
    form_options = ("branching", "binarise", "mirror")
    default_for = "tree(k)"

    mirror: str = option(
        "all",
        "Operation: all or root (what is mirrored), or search-tree (a rotation).",
        late=True,
        among=("all", "root", "search-tree"),
    )

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        if self.mirror == "search-tree" and self.branching != 2:
            fix = "choose the mirror all or root"
            raise UsageError("only binary trees can be rotated", got=f"branching {self.branching}", fix=fix)
        super().check()

    @property
    def max_depth(self) -> int:
        """The greatest depth at which every path of source and target fits; a rotation can double the depth."""
        return super().max_depth // (2 if self.mirror == "search-tree" else 1)

    def answer(self, source: Source) -> Tokens:
        """The target of each source: its mirror image, or the rotated tree."""
        if self.mirror == "search-tree":
            place = rotate_right(source.starts, source.position)
        else:
            place = (trees.mirror if self.mirror == "all" else trees.reverse_root)(source.position, self.branching)
        return Tokens(source.starts, place, source.symbol)


_STAYS, _TURNS, _RISES = range(3)  # what happens to a node, see `rotate_right`


def rotate_right(starts: I64, heap: I64) -> I64:
    """The heap indices after right rotations of binary trees, from the root down.

    A node f whose left child p is an inner node becomes the right child of p. The three subtrees below them are rotated
    too. A node whose left child is a leaf stays, with everything below it:

        f(p(l, r), x) -> p(l', f(r', x')),    where l' is l rotated

    A tree of depth d becomes one of depth 2d at most. Heap indices have to be below 2^32. `starts`: int64 [R + 1],
    where each tree begins, and the end. int64 [T] -> int64 [T]

    >>> rotate_right(np.array([0, 5]), np.array([1, 2, 3, 4, 5]))  # f(p(l, r), x) -> p(l, f(r, x))
    array([3, 1, 7, 2, 6])
    """
    key = rows_of(starts) << 34 | heap  # tells the nodes of different trees apart, and their grandchildren
    order = np.argsort(key, kind="stable")
    known, level = key[order], Tree(2).level(heap)

    def there(keys: I64) -> np.ndarray:
        """Whether there are nodes with these keys."""
        return known[np.minimum(np.searchsorted(known, keys), known.size - 1)] == keys

    fate = np.full(heap.size, _STAYS)
    root = np.ones_like(heap)  # where the root of each node's subtree is put before it is rotated
    for depth in range(int(level.max(initial=0)) + 1):
        here = np.flatnonzero(level == depth)
        fate[here] = _TURNS
        if depth:
            above = order[np.searchsorted(known, key[here] - heap[here] + heap[here] // 2)]
            right, at = heap[here] & 1, root[above]
            below = [2 * at + right, np.where(right, 4 * at + 3, at), np.where(right, 4 * at + 2, 2 * at)]
            fates = [np.full_like(at, _STAYS), np.where(right, _TURNS, _RISES), np.full_like(at, _TURNS)]
            root[here], fate[here] = np.choose(fate[above], below), np.choose(fate[above], fates)
        turns = fate[here] == _TURNS
        left_is_inner = there(key[here] + 3 * heap[here])  # the key of the left child of the left child, at 4 heap
        fate[here[turns & ~left_is_inner]] = _STAYS
    return np.where(fate == _TURNS, 2 * root + 1, root)
