"""The task `trees`: copy, rotate, query, convert or complete your own trees.

Trees are read from files: JSON, Python, Penn Treebank brackets, CoNLL-U, XML and others (`storage/tree_formats/`).
`_tree_corpus.py` divides them into splits and labels their nodes. The random draws of a row (hidden nodes, the queried
node, names of labels) come from a stream that depends on the seed and on the tree, not on the row number.

Shapes: R rows, T nodes in all, k branches of the stored trees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ape_cli.core import plugins, ragged, rng
from ape_cli.core.errors import NeedsError, UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL, PAD, SPECIAL, SPLITS
from ape_cli.storage import sequence_rows, tree_formats
from ape_cli.storage.tree_sources import TreeSource, read_trees
from ape_cli.structure import Tree, trees
from ape_cli.structure.linearisation import Order
from ape_cli.tasks import Tokens, check_whole
from ape_cli.tasks._base import FixedRows
from ape_cli.tasks._tree_corpus import Corpus, LabelledTrees, TreeOptions, corpus, described, maskable

MASK, QUERY, AT = "<mask>", "<query>", "<at>"
_BLOCK_NODES = 400_000  # nodes of the trees that are worked on at once
Sides = tuple[Tokens, Tokens]  # the source and the target of each row


@dataclass(frozen=True)
class TreeRows(LabelledTrees):
    """The trees of some rows, with what a task needs to draw at random."""

    seed: int
    task: UserTrees
    labels: int  # number of labels, which have the ids from `FIRST_SYMBOL` on

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


def _copy(rows: TreeRows) -> Sides:
    """The target is the tree."""
    return rows.whole(), rows.whole()


def _rotate(rows: TreeRows) -> Sides:
    """The target is the tree with the children of each node in reverse order."""
    source = rows.whole()
    return source, replace(source, position=rows.trees.mirrored().heap(rows.task.branching))


def _mask(rows: TreeRows) -> Sides:
    """Labels are hidden in the source, and the target has a tag for each node: its label if that is hidden.

    Of m nodes that may be hidden, `mask_rate` * m are, rounded down or up so that this is the mean.
    """
    whole, offsets = rows.whole(), rows.trees.offsets
    may = maskable(offsets, rows.label, anonymous=rows.task.labels == "anonymous")
    row = ragged.rows_of(offsets)
    word = rng.bits(rng.child(rows.stream, "hidden")[row], ragged.indices_of(offsets))
    rank = np.empty_like(row)  # of the nodes of a row that may be hidden, before all others
    rank[np.lexsort((word, ~may, row))] = ragged.indices_of(offsets)
    uniform = rng.uniform(rng.bits(rng.child(rows.stream, "count"), np.array(0)))
    count = np.floor(rows.task.mask_rate * np.add.reduceat(may, offsets[:-1], dtype=np.int64) + uniform)
    hidden = may & (rank < count[row])
    source = replace(whole, symbol=np.where(hidden, FIRST_SYMBOL + rows.labels, whole.symbol))
    return source, replace(whole, symbol=np.where(hidden, whole.symbol, PAD))


def _query(rows: TreeRows) -> Sides:
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
    one_per_row, ones = np.arange(nodes.size + 1), np.ones_like(nodes)
    query = (one_per_row, ones, first * ones), (one_per_row, 2 * ones, (first + 1) * ones)
    path = (chain, trees.graft(tree.level_start(step + 1), 2, k), first + 2 + branch)
    nodes_below = (forest.offsets, trees.graft(whole.position, 3, k), whole.symbol)
    return Tokens(*ragged.beside(*query, path, nodes_below)), target


TASKS: dict[str, Callable[[TreeRows], Sides]] = {
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


def without_shared(splits: dict[str, TreeRows]) -> dict[str, TreeRows]:
    """The splits without rows whose source is also in an earlier split. Different trees can have one, with masks."""
    seen: set[int] = set()
    apart = {}
    for split, rows in splits.items():
        source, _ = _mask(rows)
        hashes = rng.content(source.offsets, source.position, source.symbol).tolist()
        apart[split] = rows.take(np.array([row for row, h in enumerate(hashes) if h not in seen], dtype=np.int64))
        seen.update(hashes)
    return apart


@dataclass(frozen=True, kw_only=True)
class UserTrees(TreeOptions, FixedRows[TreeRows]):
    """A task on trees from your own files.

    `task` selects the target:

    - `copy`: the tree. `convert` is the same with source and target in different node orders.
    - `rotate`: the tree with the children of each node in reverse order.
    - `mask`: some labels of the source are hidden, and the target has a tag for each node: its label if hidden, else
      nothing to predict. The labels of roots and `<unknown>` are never hidden. Trees in which less than one label would
      be hidden are left out.
    - `query`: the source contains the path to a node, and the target is the subtree there.

    `labels` selects what labels a node: its `kind`, its `token`, or its kind under a random name that differs from tree
    to tree (`anonymous`). Trees are stored in binarised form unless `branching` is given.

    The source is read when it is needed. Reading it raises `DataError` if it is missing or damaged.

    Raises `UsageError` if an option is out of range.
    """

    summary = "copy, rotate, query, convert or complete trees of your own files (--source)"
    source = "your files"
    answer_options = ("task", "labels")
    things = "trees"
    ordered = True
    positions_given = True  # the shape of each target is that of the source, or of a part that the source points to

    @classmethod
    def refuse(cls, options: Mapping[str, Any]) -> None:
        """Check given options. Raises `UsageError` if they contradict each other or do not apply."""
        super().refuse(options)
        branching = options.get("branching")
        if options.get("binarise") is (branching is not None):
            got = f"`binarise={options['binarise']}` and `branching={branching}`"
            fix = "give only `branching`, or neither for binary trees"
            raise UsageError("trees are stored in one form", got=got, fix=fix)
        if "mask_rate" in options and options.get("task", "copy") != "mask":
            got = f"`task={options.get('task', 'copy')}`"
            raise UsageError("`mask_rate` applies only to `task=mask`", got=got, fix="leave it out")
        if options.get("task") == "convert" and options.get("order", "breadth") == options.get("source_order"):
            got = f"both {options['source_order']}"
            raise UsageError("convert needs two different orders", got=got, fix="leave `source_order` out")
        if "min_count" in options and options.get("labels") == "anonymous":
            got = f"`min_count={options['min_count']}`"
            raise UsageError("anonymous labels have no counts", got=got, fix="leave it out")

    def __post_init__(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range."""
        super().__post_init__()
        check_whole("mask_rate", self.mask_rate, 0.001, 0.999)
        if self.task == "convert" and self.source_order is None:
            other = "breadth" if self.order == "depth" else "depth"
            object.__setattr__(self, "source_order", other)

    @classmethod
    def form(cls, parameters: Mapping[str, Any]) -> str:
        """The form of a dataset, as columns of tables name it: `json, rotate, kind labels, binarised`."""
        branching = parameters.get("branching")
        stored = "binarised" if branching is None else f"branching {branching}"
        return f"{parameters['source']}, {parameters['task']}, {parameters['labels']} labels, {stored}"

    @classmethod
    def recorded(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The options among the parameters that a manifest has."""
        return {k: v for k, v in super().recorded(parameters).items() if k not in ("source", "format", "unit")}

    @cached_property
    def _source(self) -> TreeSource:
        """The trees of the files."""
        if self.where is None:
            fix = "`ape gen trees --source PATH`, then `ape train --data NAME`"
            raise NeedsError("the task trees needs a file, a folder or a pattern of your own trees", fix=fix)
        return read_trees(self.where, format=self.format, unit=self.unit, column=self.column, skip_bad=self.skip_bad)

    def manifest_fields(self, rows: int, seed: int) -> dict[str, Any]:
        """The SHA-256 of each file of the source, by its path below the source."""
        return {"sources": self._source.files}

    @cached_property
    def _corpus(self) -> Corpus:
        """The trees of the files that are used."""
        return corpus(self._source, self)

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a tree, in the form that is stored."""
        return Tree(self.stored).expression

    @property
    def tagged(self) -> bool:
        """Whether hidden labels are tags of the source."""
        return self.task == "mask"

    @property
    def title(self) -> str:
        """The name of the dataset's folder: `trees-json-copy-kind-breadth`."""
        return "-".join(
            [self.name, self._source.name, self.task, self.labels, super().title.removeprefix(f"{self.name}-")]
        )

    @property
    def _label_names(self) -> list[str]:
        return self._corpus.names or [f"a{number}" for number in range(int(self._corpus.label.max()) + 1)]

    @property
    def id_names(self) -> list[str]:
        """The readable name of each id: labels by their frequency, then the symbols that the task needs beside them."""
        return [*SPECIAL, *self._label_names, *extra_names(self.task, self.stored)]

    @cached_property
    def _levels(self) -> I64:
        """The level of each node of the stored trees. int64 [T]"""
        return Tree(self.stored).level(self._corpus.trees.heap(self.branching))

    @property
    def mean_size(self) -> float:
        """The mean depth of the sources, as they are stored. In a query, the tree is one level below the root."""
        depth = np.maximum.reduceat(self._levels, self._corpus.trees.offsets[:-1])
        return float(depth.mean()) + (self.task == "query")

    @property
    def mean_tokens(self) -> float:
        """The mean number of nodes of a source. A query has two nodes and a path beside the tree."""
        if self.task != "query":
            return self.mean_target_tokens
        offsets = self._corpus.trees.offsets
        below = np.diff(offsets) - 1  # any node below the root can be asked for; its path has its level
        return self.mean_target_tokens + 2 + float((np.add.reduceat(self._levels, offsets[:-1]) / below).mean())

    @property
    def mean_target_tokens(self) -> float:
        """The mean number of nodes of a tree, because no target has more."""
        return self._corpus.mean_tokens

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The options, as the manifest keeps them. `sha256` is that of the source's content and an own format."""
        unused = {"source", "skip_bad"}
        unused |= {"min_count"} if self.labels == "anonymous" else set()
        unused |= {"mask_rate"} if self.task != "mask" else set()
        used = {k: v for k, v in self.options.items() if k not in unused and v is not None}
        read = {"source": self._source.name, "format": ", ".join(self._source.formats), "unit": self._source.unit}
        own = ((name, plugins.digest(type(tree_formats.load(name)))) for name in self._source.formats)
        digests = [*self._source.files.items(), *((name, code) for name, code in own if code)]
        listed = "\n".join(f"{path} {digest}" for path, digest in digests)
        sha256 = hashlib.sha256(listed.encode()).hexdigest()
        return {**used, **read, "binarise": self.branching is None, "sha256": sha256}

    def notes(self, seed: int) -> list[str]:
        """What was read of the source, and what was left out."""
        return described(self._source, self._corpus, len(self._corpus) - sum(self.available(seed).values()))

    def _split(self, seed: int) -> dict[str, TreeRows]:
        chosen = self._corpus
        every = TreeRows(chosen.trees, chosen.label, chosen.key, seed, self, len(self._label_names))
        order = np.argsort(rng.rows(seed, "order", chosen.key), kind="stable")
        parts = {split: every.take(order[chosen.split[order] == number]) for number, split in enumerate(SPLITS)}
        return without_shared(parts) if self.task == "mask" else parts

    def _table(self, row: I64, rows: TreeRows, seed: int) -> tuple[pa.Table, int]:
        source, target = TASKS[self.task](rows.take(row))
        size = np.maximum.reduceat(Tree(self.stored).level(source.position), source.offsets[:-1])
        line, answer = self._linear(source, self.source_order or self.order), self._linear(target, self.order)
        return sequence_rows.table(row.astype(np.uint64), line, answer, size, None, []), 0

    def _linear(self, tokens: Tokens, order: Order | None) -> tuple[I64, I64, I64]:
        """The rows of one side in an order: offsets [R+1], positions [T] and symbols [T]."""
        line = trees.linearise(ragged.rows_of(tokens.offsets), tokens.position, order or "breadth", self.stored)
        return tokens.offsets, tokens.position[line], tokens.symbol[line]
