"""The task `tree-ops`: operations on a subtree that is addressed by its content.

Shapes: R rows, T nodes in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import trees
from ape_cli.structure.trees import Bool
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._trees import UniqueTrees

EXTRACT, FLIP_EXTRACT, TRUNCATE, NO_OP = range(4)


@dataclass(frozen=True, kw_only=True)
class TreeOps(UniqueTrees):
    """Apply one of four operators to a tree with unique symbols and one of its subtrees.

    The source is operator(index, tree). The index is a leaf that carries the symbol of the root of the chosen subtree,
    which is drawn uniformly from all nodes. The operator determines the target:

    - `extract`: the subtree;
    - `flip-extract`: the mirror image of the subtree, or the subtree with only the children of its root reversed;
    - `truncate`: the tree, with the subtree replaced by a leaf that carries the symbol of the subtree's root;
    - `no-op`: the tree.

    The tree has depth $d - 1$, so that the whole source has the drawn depth $d$. A tree with more leaves than there are
    leaf symbols is drawn again. No symbol occurs twice in a tree. For any branching, the two children of the source's
    root, the index and the tree, are at heap indices 2 and 3.

    Raises `UsageError` if an option is out of range, or if the vocabulary is too small for unique symbols.

    >>> task = TreeOps(order="breadth", depth_mean=3, depth_std=0, vocabulary=16)
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]]  # truncate(f1, f3(f6, f1(x4, x3))), f6 = (x0, x1)
    ['truncate', 'f1', 'f3', 'f6', 'f1', 'x0', 'x1', 'x4', 'x3']
    >>> row["source_positions"]
    [1, 2, 3, 6, 7, 12, 13, 14, 15]
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]  # f1 is now a leaf
    (['f3', 'f6', 'f1', 'x0', 'x1'], [1, 2, 3, 4, 5])
    """

    summary = "extract, flip-extract, truncate or keep a subtree that a leaf points to"
    answer_options = ("mirror",)
    form_options = ("branching", "binarise", "mirror")
    ops = ("extract", "flip-extract", "truncate", "no-op")

    mirror: str = option("all", "Where flip-extract reverses children: all or root.", late=True, among=("all", "root"))

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: leaves, operators of the tree, then the four operators."""
        return [*super().symbols(), *self.ops]

    def expected_tokens(self) -> float:
        """The expected number of nodes of a source that has the mean depth, rounded."""
        return self.nodes(max(0, round(self.depth_mean) - 1)) + 2

    def draw(self, key: U64) -> Source:
        """Draw one source for each key. uint64 [R] -> `Source` of R rows with `op` and `chosen`"""
        depth = self.draw_sizes(key)
        heap, offsets, leaf = self._grow(depth - 1, rng.child(key, "shape"))
        symbol = FIRST_SYMBOL + self._unique(offsets, leaf, rng.child(key, "symbols"))
        pointed = self.point(offsets, leaf, rng.child(key, "node"))
        op = self.choose(rng.child(key, "operator"))
        one_per_row, ones = np.arange(depth.size + 1), np.ones_like(depth)
        operator = (one_per_row, ones, FIRST_SYMBOL + self.leaves + self.operators + op)
        tree = (offsets, trees.graft(heap, 3, self.branching), symbol)
        cut, position, symbols = ragged.beside(operator, (one_per_row, 2 * ones, symbol[pointed]), tree)
        return Source(cut, position, symbols, depth, op, chosen=heap[pointed])

    def point(self, offsets: I64, leaf: Bool, key: U64) -> I64:
        """The index of the chosen node of each row. int64 [R + 1], bool [T], uint64 [R] -> int64 [R]"""
        return offsets[:-1] + rng.below(key, np.diff(offsets))

    def choose(self, key: U64) -> I64:
        """The operator of each row, as an index into `ops`. uint64 [R] -> int64 [R]"""
        return rng.below(key, len(self.ops))

    def target(self, source: Source) -> Tokens:
        """The target of each source: the result of the operator."""
        assert source.op is not None
        assert source.chosen is not None
        row, heap, symbol, down = self._tree_of(source)
        truncating, whole = (source.op == TRUNCATE)[row], (source.op == NO_OP)[row]
        kept = np.flatnonzero(whole | ((down >= 0) ^ truncating) | (down == 0))
        row, heap, down = row[kept], heap[kept], down[kept]
        extracting = source.op <= FLIP_EXTRACT
        heap -= ((source.chosen - 1) * extracting)[row] * trees.power(self.branching, np.maximum(down, 0))
        flipped = np.flatnonzero((source.op == FLIP_EXTRACT)[row])
        heap[flipped] = (trees.mirror if self.mirror == "all" else trees.reverse_root)(heap[flipped], self.branching)
        return Tokens(ragged.offsets_of(np.bincount(row, minlength=source.size.size)), heap, symbol[kept])

    def closing(self, op: I64, pointer: I64) -> I64:
        """The symbol of the chosen root for `truncate`, which makes it a leaf; else -1. int64 [R] each -> int64 [R]"""
        return np.where(op == TRUNCATE, pointer, -1)
