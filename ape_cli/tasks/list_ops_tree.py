"""The task `list-ops-tree`: nested operations on lists of digits, as trees.

`_list_ops.py` names the source and draws the trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ape_cli.structure import Tree
from ape_cli.tasks._list_ops import ListOperations


@dataclass(frozen=True, kw_only=True)
class ListOpsTree(ListOperations):
    """Evaluate a tree of `MIN`, `MAX`, `MED` and `SM` (the sum modulo 10) over digits.

    The source is the tree. An operator has 2..k arguments, which are its first children; positions are the heap indices
    of tree(k). The target is a tree of one node, the value of the source. With `intermediate` it has a node for each
    operator of the source, at the same position, with the value of this operator. The task `list-ops` has the same
    trees as sequences.

    Arguments: those of `ListOperations`. Raises `UsageError` if an option is out of range, or if the trees would be too
    large.

    >>> task = ListOpsTree(order="depth", depth_mean=2, depth_std=0, arguments=3, intermediate=True)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]
    (['SM', 'MED', '0', '1', 'MIN', '7', '1', '7', 'MIN', '5', '0', '5'], [1, 2, 5, 6, 3, 8, 9, 10, 4, 11, 12, 13])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]
    (['1', '0', '1', '0'], [1, 2, 3, 4])
    """

    summary = "the value of nested operations on digits, as trees: MIN(7, MAX(2, 4)) -> 4"
    ordered: ClassVar[bool] = True
    places_given: ClassVar[bool] = True

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a tree with k branches."""
        return Tree(self.arguments).expression
