"""The task `tree-rotate`: the target is the mirror image of a tree, or another rotation of it.

Children are reversed at all depths; in binary trees this swaps left and right. This is how the preprint (arXiv
2312.16045v1) describes the task. The authors' code had two other forms, which `rotation` selects. Until April 2024 it
reversed only the children of the root. Since then it rotates trees as search trees are rotated, which the published
paper (v3, NeurIPS 2024, appendix B) describes as the recursive right rotation of all subtrees.

Deviation from this sentence: a subtree whose left child is a leaf has no right rotation. As in the authors' code, it
does not change, so the subtrees of its right child are not rotated either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ape_cli.core.errors import UsageError
from ape_cli.core.ragged import rows_of
from ape_cli.core.rng import I64
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._trees import PlainTrees

# In manifests and in records of runs, the option and its values have their names of earlier versions. They are part of
# the digest of a plan, so datasets of all versions are the same bytes.
_STORED = "mirror"
_STORED_VALUES = {"mirror": "all", "root": "root", "right": "search-tree"}


@dataclass(frozen=True, kw_only=True)
class TreeRotate(PlainTrees):
    """Mirror a tree, mirror only its root, or rotate all of its subtrees to the right.

    `rotation` selects the operation:

    - `mirror` reverses the children of every node, as the text of the preprint says.
    - `root` reverses only the children of the root, as the first release of the authors' code did.
    - `right` rotates all subtrees of a binary tree to the right, as in the published paper: $f(p(l, r), x)$ becomes
      $p(l', f(r', x'))$, where $l'$ is $l$ rotated. A subtree whose left child is a leaf does not change.

    Manifests and `run.json` store this option as `mirror`, with the values `all`, `root` and `search-tree`.

    Raises `UsageError` if an option is out of range, or if the trees are not binary or too deep for a right rotation.

    >>> task = TreeRotate(order="breadth", depth_mean=2, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f3(x3, f1(x5, x2))
    (['f3', 'x3', 'f1', 'x5', 'x2'], [1, 2, 3, 6, 7])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f3(f1(x2, x5), x3)
    (['f3', 'f1', 'x3', 'x2', 'x5'], [1, 2, 3, 4, 5])
    """

    summary = "the mirror image, recursively: f(x, g(y, z)) -> f(g(z, y), x)"
    answer_options = ("rotation",)
    form_options = ("branching", "binarise", "rotation")
    default_for = "tree(k)"

    rotation: str = option("mirror", "Operation: mirror, root or right.", late=True, among=tuple(_STORED_VALUES))

    @property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them, with the stored name of `rotation`."""
        stored = super().parameters
        if "rotation" in stored:
            stored[_STORED] = _STORED_VALUES[stored.pop("rotation")]
        return stored

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has."""
        options = dict(parameters)
        if _STORED in options:
            stored = options.pop(_STORED)
            options["rotation"] = next((name for name, value in _STORED_VALUES.items() if value == stored), stored)
        return options

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        if self.rotation == "right" and self.branching != 2:
            fix = "choose the rotation mirror or root"
            raise UsageError(
                "only binary trees can be rotated to the right", got=f"branching {self.branching}", fix=fix
            )
        super().check()

    @property
    def max_depth(self) -> int:
        """The greatest depth at which all paths of source and target fit; a right rotation can double the depth."""
        return super().max_depth // (2 if self.rotation == "right" else 1)

    def target(self, source: Source) -> Tokens:
        """The target of each source: its mirror image, or the rotated tree."""
        if self.rotation == "right":
            index = rotate_right(source.offsets, source.position)
        else:
            reverse = trees.mirror if self.rotation == "mirror" else trees.reverse_root
            index = reverse(source.position, self.branching)
        return Tokens(source.offsets, index, source.symbol)


_STAYS, _TURNS, _RISES = range(3)  # what happens to a node, see `rotate_right`


def rotate_right(offsets: I64, heap: I64) -> I64:
    """The heap indices after right rotations of binary trees, from the root down.

    A node f whose left child p is an inner node becomes the right child of p. The three subtrees below them are rotated
    too. A node whose left child is a leaf stays, with everything below it:

        f(p(l, r), x) -> p(l', f(r', x')),    where l' is l rotated

    A tree of depth d becomes one of depth 2d at most. Heap indices have to be below 2^32. `offsets`: int64 [R + 1],
    where each tree begins, and the end. int64 [T] -> int64 [T]

    >>> rotate_right(np.array([0, 5]), np.array([1, 2, 3, 4, 5]))  # f(p(l, r), x) -> p(l, f(r, x))
    array([3, 1, 7, 2, 6])
    """
    key = rows_of(offsets) << 34 | heap  # tells the nodes of different trees apart, and their grandchildren
    order = np.argsort(key, kind="stable")
    sorted_keys, level = key[order], Tree(2).level(heap)

    def there(keys: I64) -> np.ndarray:
        """Whether there are nodes with these keys."""
        return sorted_keys[np.minimum(np.searchsorted(sorted_keys, keys), sorted_keys.size - 1)] == keys

    fate = np.full(heap.size, _STAYS)
    root = np.ones_like(heap)  # where the root of each node's subtree is put before it is rotated
    for depth in range(int(level.max(initial=0)) + 1):
        here = np.flatnonzero(level == depth)
        fate[here] = _TURNS
        if depth:
            above = order[np.searchsorted(sorted_keys, key[here] - heap[here] + heap[here] // 2)]
            right, top = heap[here] & 1, root[above]
            below = [2 * top + right, np.where(right, 4 * top + 3, top), np.where(right, 4 * top + 2, 2 * top)]
            fates = [np.full_like(top, _STAYS), np.where(right, _TURNS, _RISES), np.full_like(top, _TURNS)]
            root[here], fate[here] = np.choose(fate[above], below), np.choose(fate[above], fates)
        turns = fate[here] == _TURNS
        left_is_inner = there(key[here] + 3 * heap[here])  # the key of the left child of the left child, at 4 heap
        fate[here[turns & ~left_is_inner]] = _STAYS
    return np.where(fate == _TURNS, 2 * root + 1, root)
