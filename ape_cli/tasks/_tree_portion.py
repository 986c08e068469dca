"""The rows of a dataset of users' own trees: everything that is needed to write them, in another process too.

The random draws of a row (hidden nodes, the queried node, names of labels) come from a stream that depends on the seed
and on the tree, not on the row number.

Shapes: R rows, T nodes in all, k branches of the stored trees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD
from ape_cli.storage import sequence_rows
from ape_cli.structure import Tree, trees
from ape_cli.structure.linearisation import Order
from ape_cli.structure.ranked_trees import RankedTrees
from ape_cli.tasks._base import FixedRows, SplitRows, option
from ape_cli.tasks._task import Tokens

MASK, QUERY, AT = "<mask>", "<query>", "<at>"
_BLOCK_NODES = 400_000  # nodes of the trees that are worked on at once
Sides = tuple[Tokens, Tokens]  # the source and the target of each row


@dataclass(frozen=True)
class LabelledTrees:
    """Trees with labels."""

    trees: RankedTrees
    label: I64  # [T]
    key: U64  # [R], the stream of each tree's random draws

    @property
    def mean_tokens(self) -> float:
        """The mean number of nodes of a tree."""
        return self.label.size / max(1, len(self))

    def __len__(self) -> int:
        """The number of trees."""
        return self.key.size

    def take(self, rows: I64) -> Self:
        """The chosen trees, in the given order. `rows`: int64 [N], counted from the first one."""
        trees, index = self.trees.take(rows)
        return replace(self, trees=trees, label=self.label[index], key=self.key[rows])


@dataclass(frozen=True)
class TreePortion(LabelledTrees, SplitRows):
    """Rows of one split."""

    seed: int
    first: int  # number of its first row in the split
    task: TreeOptions
    labels: int  # number of labels, which have the ids from `FIRST_SYMBOL` on

    def part(self, rows: range) -> TreePortion:
        """Some of its rows. `rows` are row numbers of the split, one after the other."""
        return replace(self.take(np.arange(rows.start, rows.stop) - self.first), first=rows.start)

    def sample_counted(self, *, rows: range, split: str, seed: int) -> tuple[pa.Table, int]:
        """These rows as a table with the schema of a shard, and 0, because no row is shared."""
        number = np.arange(rows.start, rows.stop, rows.step)
        source, target = self.take(number - self.first).sides()
        size = np.maximum.reduceat(Tree(self.task.stored).level(source.position), source.offsets[:-1])
        line = self._linear(source, self.task.source_order or self.task.order)
        answer = self._linear(target, self.task.order)
        return sequence_rows.table(number.astype(np.uint64), line, answer, size, None, []), 0

    def _linear(self, tokens: Tokens, order: Order | None) -> tuple[I64, I64, I64]:
        """The rows of one side in an order: offsets [R+1], positions [T] and symbols [T]."""
        line = trees.linearise(ragged.rows_of(tokens.offsets), tokens.position, order or "breadth", self.task.stored)
        return tokens.offsets, tokens.position[line], tokens.symbol[line]

    def sides(self) -> Sides:
        """The source and the target of each row, in any order of the nodes."""
        return TASKS[self.task.task](self)

    @property
    def stream(self) -> U64:
        """The stream of each row: uint64 [R]"""
        return rng.rows(self.seed, "trees", self.key)

    @property
    def symbols(self) -> I64:
        """The id of each node's label: int64 [T]"""
        if self.task.labels != "anonymous":
            return FIRST_SYMBOL + self.label
        names = np.empty_like(self.label)
        at_once = max(1, _BLOCK_NODES // self.labels)
        for first in range(0, len(self), at_once):
            rows = np.arange(first, min(len(self), first + at_once))
            words = rng.bits(rng.child(self.stream[rows], "names")[:, None], np.arange(self.labels))
            order = np.argsort(words, axis=1, kind="stable")  # [rows, labels]
            index, offsets = ragged.take(self.trees.offsets, rows)
            names[index] = order[ragged.rows_of(offsets), self.label[index]]
        return FIRST_SYMBOL + names

    def whole(self) -> Tokens:
        """The trees, with all their labels."""
        return Tokens(self.trees.offsets, self.trees.heap(self.task.branching), self.symbols)


@dataclass(frozen=True, kw_only=True)
class TreeOptions(FixedRows[TreePortion]):
    """The options of a task on users' own trees."""

    where: str | None = option(None, "Your own trees: a file, a folder or a pattern.", name="source")
    format: str | None = option(
        None,
        "Format of the files: json, json-lines, python, s-expr, conllu, xml, html or tree-sitter-LANGUAGE. "
        "Default: by suffix.",
    )
    unit: str | None = option(None, "Unit of a tree: file, function, sentence, document or subtree.")
    column: str | None = option(None, "Text column of Parquet files.")
    skip_bad: bool = option(False, "Skip files that cannot be read.")
    task: str = option(
        "copy",
        "Task on your trees: copy, rotate, query, convert or mask.",
        among=("copy", "rotate", "query", "convert", "mask"),
    )
    labels: str = option("kind", "Node labels: kind, token or anonymous.", among=("kind", "token", "anonymous"))
    vocabulary: int = option(1000, "Number of symbols.", between=(1, 60_000))
    min_count: int = option(1, "Minimum count of a label in training; rarer labels become unknown.", between=(1, 10**9))
    branching: int | None = option(None, "Number of children of an inner node.", between=(2, 1000))
    binarise: bool = option(
        False, "Store trees as binary trees: the left child is the first child, the right child the next sibling."
    )
    most_nodes: int = option(256, "Maximum number of nodes; larger trees are left out.", between=(2, 100_000))
    mask_rate: float = option(0.15, "Share of labels that mask hides; roots and unknown labels are not counted.")

    @property
    def stored(self) -> int:
        """The branching of the stored trees."""
        return self.branching or 2


def _copy(rows: TreePortion) -> Sides:
    """The target is the tree."""
    return rows.whole(), rows.whole()


def _rotate(rows: TreePortion) -> Sides:
    """The target is the tree with the children of each node in reverse order."""
    source = rows.whole()
    return source, replace(source, position=rows.trees.mirrored().heap(rows.task.branching))


def _mask(rows: TreePortion) -> Sides:
    """Labels are hidden in the source, and the target has a tag for each node: its label if that is hidden.

    Of m nodes that may be hidden, `mask_rate` * m are, rounded down or up so that this is the mean.
    """
    whole, offsets = rows.whole(), rows.trees.offsets
    may = maskable(offsets, rows.label, anonymous=rows.task.labels == "anonymous")
    row = ragged.rows_of(offsets)
    word = rng.bits(rng.child(rows.stream, "hidden")[row], ragged.indices_of(offsets))
    rank = np.empty_like(row)  # of the nodes of a row that may be hidden, before all others
    rank[np.lexsort((word, ~may, row))] = ragged.indices_of(offsets)
    uniform = (rng.bits(rng.child(rows.stream, "count"), np.array(0)) >> np.uint64(11)) * 2.0**-53
    count = np.floor(rows.task.mask_rate * np.add.reduceat(may, offsets[:-1], dtype=np.int64) + uniform)
    hidden = may & (rank < count[row])
    source = replace(whole, symbol=np.where(hidden, FIRST_SYMBOL + rows.labels, whole.symbol))
    return source, replace(whole, symbol=np.where(hidden, whole.symbol, PAD))


def maskable(offsets: I64, label: I64, *, anonymous: bool) -> np.ndarray:
    """Whether the label of each node may be hidden: not that of a root, and not `<unknown>`, which is label 0.

    `offsets`: int64 [R+1]; `label`: int64 [T]; `anonymous`: whether no label is unknown. Returns bool [T].
    """
    below = ragged.indices_of(offsets) > 0
    return below if anonymous else below & (label != 0)


def _query(rows: TreePortion) -> Sides:
    """The source is <query>(<at>(path), tree), and the target is the subtree at the end of the path.

    `<at>` is at heap index 2 and the root of the tree at 3. The steps of the path are a chain of first children below
    `<at>`, from the tree's root down: each is the number of a branch of the stored tree, from 1. The node that is asked
    for is drawn uniformly from those below the root.
    """
    k, forest, whole = rows.task.stored, rows.trees, rows.whole()
    nodes = np.diff(forest.offsets)
    node = forest.offsets[:-1] + 1 + rng.below(rng.child(rows.stream, "query"), nodes - 1)
    subtree, index = forest.subtrees(node)
    target = Tokens(subtree.offsets, subtree.heap(rows.task.branching), whole.symbol[index])
    tree = Tree(k)
    steps = tree.level(whole.position[node])
    chain = ragged.offsets_of(steps)
    step, of = ragged.indices_of(chain), ragged.rows_of(chain)
    branch = tree.branch(tree.ancestor(whole.position[node][of], steps[of] - 1 - step))
    first = FIRST_SYMBOL + rows.labels  # <query>, <at>, <1>, <2> and so on
    head = np.arange(nodes.size)
    row = np.concatenate([head, head, of, ragged.rows_of(forest.offsets)])
    position = [
        np.ones_like(head),
        np.full_like(head, 2),
        trees.graft(tree.level_start(step + 1), 2, k),
        trees.graft(whole.position, 3, k),
    ]
    symbol = [np.full_like(head, first), np.full_like(head, first + 1), first + 2 + branch, whole.symbol]
    line = np.argsort(row, kind="stable")
    offsets = ragged.offsets_of(2 + steps + nodes)
    return Tokens(offsets, np.concatenate(position)[line], np.concatenate(symbol)[line]), target


TASKS: dict[str, Callable[[TreePortion], Sides]] = {
    "copy": _copy,
    "rotate": _rotate,
    "query": _query,
    "convert": _copy,  # in two different orders
    "mask": _mask,
}


def extra_names(task: str, branching: int) -> list[str]:
    """The names of the symbols that a task has beside labels, in the order of their ids."""
    names = {"mask": [MASK], "query": [QUERY, AT, *(f"<{branch}>" for branch in range(1, branching + 1))]}
    return names.get(task, [])


def without_shared(splits: dict[str, TreePortion]) -> dict[str, TreePortion]:
    """The splits without rows whose source is also in an earlier split. Different trees can have one, with masks."""
    seen: set[int] = set()
    apart = {}
    for split, part in splits.items():
        hashes = _source_hashes(part)
        rows = np.array([number for number, each in enumerate(hashes) if each not in seen], dtype=np.int64)
        seen.update(hashes)
        apart[split] = part.take(rows)
    return apart


def _source_hashes(part: TreePortion) -> list[int]:
    """A 64-bit hash of the source of each row."""
    hashes: list[int] = []
    at_once = max(1, int(_BLOCK_NODES / max(1.0, part.mean_tokens)))
    for first in range(0, len(part), at_once):
        source, _ = part.part(range(first, min(len(part), first + at_once))).sides()
        hashes += rng.content(source.offsets, source.position, source.symbol).tolist()
    return hashes
