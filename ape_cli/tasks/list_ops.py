"""The task `list-ops`: nested operations on lists of digits, as sequences with brackets.

`list-ops-tree` draws and evaluates the lists. Its page names the source.

Shapes: R rows, T nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Rows, Source
from ape_cli.tasks.list_ops_tree import DIGITS, OPERATORS, ListOpsTree


@dataclass(frozen=True, kw_only=True)
class ListOps(ListOpsTree):
    """Evaluate a bracketed list of `MIN`, `MAX`, `MED` and `SM` (the sum modulo 10) over digits.

    An operator and its opening bracket are a single token, such as `[MIN`. Its arguments follow, then a closing
    bracket. The target is the value of the list, a single symbol. With `intermediate` it lists the value of every
    operator in the order of the closing brackets, so the value of the whole list comes last. `list-ops-tree` has the
    same rows as trees, and describes how they are drawn.

    Raises `UsageError` if an option is out of range, or if lists would be too long.

    >>> task = ListOps(depth_mean=2, depth_std=0, arguments=3, intermediate=True)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    '[SM [MED 0 1 ] [MIN 7 1 7 ] [MIN 5 0 5 ] ]'
    >>> [task.id_names[i] for i in row["target_ids"]]
    ['0', '1', '0', '1']
    """

    structure = "seq"
    ordered = False
    positions_given = False
    summary = "the value of nested operations on digits: [MIN 7 [MAX 2 4 ] ] -> 4"

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: digits, operators with their opening brackets, and `]`."""
        return [*map(str, range(DIGITS)), *(f"[{name}" for name in OPERATORS), "]"]

    def store(self, rows: Rows) -> Rows:
        """The rows as the dataset holds them: a source with its brackets; the values of a target in closing order."""
        k, heap = self.arguments, rows.position
        if not isinstance(rows, Source):
            order = trees.post_order(rows.offsets, heap, k)
            return replace(rows, position=ragged.indices_of(rows.offsets), symbol=rows.symbol[order])
        order = trees.linearise(ragged.rows_of(rows.offsets), heap, "depth", k)
        level = Tree(k).level(heap[order])
        # Between a digit at depth d and a node at depth e, d - e brackets close. The next row begins at depth 0.
        following = np.append(level[1:], 0)
        tokens = 1 + np.maximum(level - following, 0)  # of each node: itself, and the brackets that close after it
        begin = ragged.offsets_of(tokens)
        symbol = np.full(begin[-1], FIRST_SYMBOL + DIGITS + len(OPERATORS))
        symbol[begin[:-1]] = rows.symbol[order]
        offsets = begin[rows.offsets]
        return replace(rows, offsets=offsets, position=ragged.indices_of(offsets), symbol=symbol)

    def expected_tokens(self) -> float:
        """The expected number of tokens of a source: its nodes, and a closing bracket for each operator."""
        return super().expected_tokens() + self.expected_operators()
