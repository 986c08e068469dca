"""The task `tree_rotate`: the target is the mirror image of a tree.

The children are in reverse order at all depths. In binary trees this exchanges left and right.
"""

from __future__ import annotations

from dataclasses import dataclass

from ape_cli.structure import trees
from ape_cli.tasks import Source, Tokens
from ape_cli.tasks._trees import PlainTrees


@dataclass(frozen=True, kw_only=True)
class TreeRotate(PlainTrees):
    """Mirror a tree recursively. This is the paper's rotation, not the rotation of search trees.

    >>> task = TreeRotate(order="breadth", depth_mean=2, depth_std=0)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]  # f3(x3, f1(x5, x2))
    (['f3', 'x3', 'f1', 'x5', 'x2'], [1, 2, 3, 6, 7])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f3(f1(x2, x5), x3)
    (['f3', 'f1', 'x3', 'x2', 'x5'], [1, 2, 3, 4, 5])
    """

    summary = "the mirror image, recursively: f(x, g(y, z)) -> f(g(z, y), x)"
    table_place = 5
    default_for = "tree(k)"

    def answer(self, source: Source) -> Tokens:
        """The target of each source: its mirror image."""
        return Tokens(source.starts, trees.mirror(source.position, self.branching), source.symbol)
