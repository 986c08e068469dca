"""The base classes of the tree tasks: random full trees, with separate vocabularies for leaves and operators.

In the paper (appendix B), trees are binary, and their depth is drawn from a discretised normal distribution with mean 7
and standard deviation 1. Positions are heap indices: the root is 1, and the children of $i$ are $2i$ and $2i+1$. The
ids of leaf symbols come before those of operator symbols.

One child of a node of depth $d$ has depth $d - 1$. The depth of each other child is uniform on 0 to $d - 1$. With
`redraw`, it is drawn again, once, if it is $d - 1$. The programs of the paper's authors do this, and they truncate the
depths of trees (`depth_mean=6.5`). Trees of `tree-copy` then have 33 nodes on average instead of 53.

Two options are ours. With `branching` $k$, nodes have $k$ children or none. With `binarise`, trees are stored as binary
trees: the left child of a node is its first child, and the right child is its next sibling. They are drawn and answered
as $k$-ary trees, so the rows of both forms contain the same trees.

Shapes: R rows, T nodes in all, k branches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Structure, Tree, bit_length, trees
from ape_cli.tasks._base import BaseTask, option
from ape_cli.tasks._sized import Sized, check_amount
from ape_cli.tasks._task import Rows, Source

_MAX_NODES = 1_000_000  # the expected number of nodes of a tree of the greatest depth must not exceed it
_MEASURED = 2_000  # number of draws by which the mean size is measured

NONE, EVERY = -1, -2  # instead of the operator symbol that is a leaf in a target: no symbol, and every symbol


@dataclass(frozen=True, kw_only=True)
class Trees(Sized):
    """A random tree with random symbols. Subclasses define the target.

    Raises `UsageError` if an option is out of range, or if trees would be too large.
    """

    ordered = True
    extent = "depth"
    min_depth: ClassVar[int] = 0
    form_options: ClassVar[tuple[str, ...]] = ("branching", "binarise")
    preset_options: ClassVar = {"neurips": {"depth_mean": 6.5}}  # the authors' programs truncate depths

    depth_mean: float = option(7.0, "Mean depth of a tree, in levels.")
    depth_std: float = option(1.0, "Standard deviation of the depth, in levels.")
    redraw: bool = option(False, "If both children of a node are equally deep, draw one depth again, once.", late=True)
    branching: int = option(2, "Number of children of an inner node.", late=True, between=(2, 1000))
    binarise: bool = option(False, "Store binary trees (left: first child, right: next sibling).", late=True)

    @classmethod
    def form(cls, parameters: Mapping[str, Any]) -> str:
        """The form of a dataset, as columns of tables name it: `branching 3, binarised`."""
        return super().form(parameters).replace("binarise", "binarised")

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest depth that can be drawn, and the reason for the largest."""
        return self.min_depth, self.max_depth, " (the deepest tree that heap indices hold)"

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the trees would be too large."""
        super().check()
        check_amount("nodes of a tree", self.nodes(self.expected_max_depth), _MAX_NODES)

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a tree, in the form that is stored."""
        return Tree(2 if self.binarise else self.branching).expression

    @property
    @abstractmethod
    def leaves(self) -> int:
        """The number of leaf symbols."""

    @property
    @abstractmethod
    def operators(self) -> int:
        """The number of operator symbols."""

    @property
    def max_depth(self) -> int:
        """The greatest depth at which every path fits into a heap index of the stored form."""
        return Tree(2).max_depth // self.branching if self.binarise else Tree(self.branching).max_depth

    @property
    def expected_max_depth(self) -> int:
        """The depth four standard deviations above the mean, at most `max_depth`.

        Deeper trees are too rare to matter for the checks.
        """
        return min(self.max_depth, round(self.depth_mean + 4 * self.depth_std))

    def nodes(self, depth: int) -> float:
        """The expected number of nodes of a tree of this depth."""
        return mean_nodes(depth, self.branching, redraw=self.redraw)

    def draw(self, key: U64) -> Source:
        """Draw one tree for each key, in level order. uint64 [R] -> `Source` of R rows"""
        depth = self.draw_sizes(key)
        heap, offsets, leaf = trees.grow(depth, rng.child(key, "shape"), self.branching, redraw=self.redraw)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), np.diff(offsets)), heap)
        symbol = rng.below(word, self.operators + leaf * (self.leaves - self.operators))
        symbol += FIRST_SYMBOL + self.leaves
        symbol -= leaf * self.leaves
        return Source(offsets, heap, symbol, depth)

    def store(self, rows: Rows) -> Rows:
        """The rows as the dataset holds them: binary trees if `binarise` is set, else unchanged.

        The size of a binarised source is the depth of its binary tree.
        """
        if not self.binarise:
            return rows
        position = trees.binarise(rows.position, self.branching)
        changes: dict[str, Any] = {"position": position}
        if isinstance(rows, Source):
            changes["size"] = np.maximum.reduceat(Tree(2).level(position), rows.offsets[:-1])
        return replace(rows, **changes)

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: leaf symbols as x0, x1, then operators as f0, f1 and so on."""
        return [f"x{i}" for i in range(self.leaves)] + [f"f{i}" for i in range(self.operators)]

    def expected_size(self) -> float:
        """The mean depth. For binarised trees it is the mean depth of the binary trees."""
        return self._measured_size if self.binarise else self.depth_mean

    @cached_property
    def _measured_size(self) -> float:
        """The mean size of the sources as they are stored, measured on 2,000 draws of one fixed stream.

        It is a function of the options alone. For binarised trees it differs from the mean of the distribution by some
        tenths of a level at most.
        """
        return self._measured("binarise", self.mean_tokens, lambda source: self.store(source).size)

    def _measured(self, stream: str, tokens: float, values: Callable[[Source], I64]) -> float:
        """The mean of values of sources over 2,000 draws of one fixed stream. `tokens`: those of a source, about."""
        parts = np.array_split(rng.rows(0, stream, np.arange(_MEASURED)), 1 + int(_MEASURED * tokens / 1_000_000))
        return float(np.concatenate([values(self.draw(part)) for part in parts]).mean())

    def expected_tokens(self) -> float:
        """The expected number of nodes of a tree that has the mean depth, rounded."""
        return self.nodes(round(self.depth_mean))

    # How a target grows, for decoding when the positions of its nodes are not given -----------

    def closing(self, op: I64, pointer: I64) -> I64:
        """The operator symbol that is a leaf in each target, `NONE` if there is none, or `EVERY` if all are leaves.

        int64 [R], int64 [R] -> int64 [R]

        `op`: the row's operator; `pointer`: the symbol at the index leaf. Only tree-ops and tree-query use them.
        """
        return np.full_like(op, NONE)

    def opens(self, position: I64, symbol: I64, closing: I64) -> I64:
        """The positions that open when a node is written. int64 [R] each -> int64 [R, branches of the stored tree]

        Position 0 stands for none. An operator opens its children; a leaf and the row's `closing` symbol open none, and
        no symbol does if that is `EVERY`. In a binarised tree an operator opens its left child, and a node that has
        later siblings opens its right child. A position that no heap index can hold does not open. A node at position 0
        opens nothing.
        """
        first = FIRST_SYMBOL + self.leaves
        grows = (position > 0) & (symbol >= first) & (symbol < first + self.operators)
        grows &= (symbol != closing) & (closing != EVERY)
        if self.binarise:
            earlier = bit_length(position ^ (position + 1)) - 1  # siblings: steps to the right at the path's end
            opens = np.stack([grows, (position > 1) & (earlier < self.branching - 1)], axis=1)
        else:
            opens = np.repeat(grows[:, None], self.branching, axis=1)
        tree = Tree(opens.shape[1])
        opens &= (tree.level(position) < tree.max_depth)[:, None]
        children = (tree.branching * (position - 1) + 2)[:, None] + np.arange(tree.branching)
        return np.where(opens, children, 0)


@dataclass(frozen=True, kw_only=True)
class PlainTrees(Trees):
    """Trees with a single vocabulary that is split evenly into leaves and operators (preprint: 10 and 10)."""

    vocabulary: int = option(20, "Number of symbols.", between=(2, 60_000))

    @property
    def leaves(self) -> int:
        """The number of leaf symbols: half of the vocabulary, rounded up."""
        return (self.vocabulary + 1) // 2

    @property
    def operators(self) -> int:
        """The number of operator symbols: half of the vocabulary, rounded down."""
        return self.vocabulary // 2


@dataclass(frozen=True, kw_only=True)
class UniqueTrees(PlainTrees):
    """A source with a tree of unique symbols below its root. Subclasses define the rest of it, and the target.

    The tree has depth d-1, so that the whole source has the drawn depth d. A tree with more leaves than there are leaf
    symbols is drawn again.

    Raises `UsageError` if an option is out of range, or if the vocabulary is too small for unique symbols.
    """

    min_depth = 1

    vocabulary: int = option(128, "Number of symbols.")

    def check(self) -> None:
        """Check the options.

        Raises `UsageError` if one is out of range, or if trees of the greatest depth would rarely fit the vocabulary.
        """
        super().check()
        depth = self.expected_max_depth
        fits = leaves_distribution(depth - 1, max(self.leaves, 2048), self.branching, redraw=self.redraw)[-1].cumsum()
        if fits[self.leaves] < 0.01:
            need = next((n for n, chance in enumerate(fits) if chance >= 0.5), None)
            got = f"{self.leaves} leaf symbols for source trees of depth up to {depth}"
            fix = f"`vocabulary={2 * need}`, or shallower trees" if need else "shallower trees"
            raise UsageError("vocabulary is too small for unique nodes at this depth", got=got, fix=fix)

    def _grow(self, depth: I64, key: U64) -> tuple[I64, I64, np.ndarray]:
        """Draw trees whose leaves are at most as many as the leaf symbols, each the first such tree of its stream.

        `depth`: int64 [R]; `key`: uint64 [R]. Returns heap int64 [T], offsets int64 [R+1], and leaf bool [T], like
        `structure.trees.grow`.
        """
        parts: list[tuple[I64, I64, np.ndarray]] = []
        chosen, pending, drawn = np.zeros(depth.size, dtype=np.int64), np.arange(depth.size), 0
        attempt = 0
        while pending.size:
            words = rng.bits(key[pending], np.array(attempt))
            heap, offsets, leaf = trees.grow(depth[pending], words, self.branching, redraw=self.redraw)
            nodes = np.diff(offsets)
            # A full tree of n nodes has n // branching inner nodes; all others are leaves.
            fits = nodes - nodes // self.branching <= self.leaves
            chosen[pending[fits]] = drawn + np.flatnonzero(fits)
            parts.append((heap, nodes, leaf))
            drawn += pending.size
            pending = pending[~fits]
            attempt += 1
        heap, sizes, leaf = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        index, offsets = ragged.take(ragged.offsets_of(sizes), chosen)
        return heap[index], offsets, leaf[index]

    def _unique(self, offsets: I64, leaf: np.ndarray, key: U64) -> I64:
        """A symbol for each node, counted from 0, so that no symbol occurs twice in a tree: int64 [T].

        The symbols come from a random permutation of the leaf symbols and one of the operators. `offsets`: int64 [R+1];
        `leaf`: bool [T]; `key`: uint64 [R].
        """
        symbol = np.empty(leaf.size, dtype=np.int64)
        for members, count, first in ((leaf, self.leaves, 0), (~leaf, self.operators, self.leaves)):
            used = np.add.reduceat(members, offsets[:-1], dtype=np.int64)
            shuffled = np.argsort(rng.bits(key[:, None], np.arange(first, first + count)), axis=1)
            symbol[np.flatnonzero(members)] = first + shuffled[np.arange(count) < used[:, None]]
        return symbol

    def _tree_of(self, source: Source) -> tuple[I64, I64, I64, I64]:
        """The nodes of the trees, which are the last ones of each row and have their root at heap index 3.

        Returns int64 [T] each: the row, the heap index counted from the tree's own root, the symbol, and the number of
        steps from the chosen node down to this one; -1 for nodes that are not in its subtree.
        """
        assert source.chosen is not None
        tree, root = Tree(self.branching), np.flatnonzero(source.position == 3)
        offsets = ragged.offsets_of(source.offsets[1:] - root)
        index, row = ragged.ranges(root, offsets), ragged.rows_of(offsets)
        heap = trees.reroot(source.position[index], 3, self.branching)
        down = tree.level(heap) - tree.level(source.chosen)[row]
        inside = (down >= 0) & (tree.ancestor(heap, np.maximum(down, 0)) == source.chosen[row])
        return row, heap, source.symbol[index], np.where(inside, down, -1)


def mean_nodes(depth: int, branching: float = 2, *, redraw: bool = False) -> float:
    """The expected number of nodes of a tree that `structure.trees.grow` makes at this depth.

    If the number of children is drawn anew for each inner node, `branching` is its mean.
    """
    mean = [1.0]
    for d in range(1, depth + 1):
        others = (branching - 1) * sum(mean) / d
        mean.append(1.0 + mean[d - 1] + others + redraw * (others - (branching - 1) * mean[d - 1]) / d)
    return mean[depth]


def leaves_distribution(depth: int, maximum: int, branching: int = 2, *, redraw: bool = False) -> np.ndarray:
    """The probability that a tree of depth d has l leaves, for d = 0..depth and l = 0..maximum: float64 [d, l]."""
    chance = np.zeros((depth + 1, maximum + 1))
    chance[0, 1:2] = 1.0
    for d in range(1, depth + 1):
        other = chance[:d].mean(axis=0)
        others = _sum_of(other + redraw * (other - chance[d - 1]) / d, branching - 1)
        chance[d] = np.convolve(chance[d - 1], others)[: maximum + 1]
    return chance


def _sum_of(chance: np.ndarray, count: int) -> np.ndarray:
    """The distribution of a sum of `count` independent draws from 0..maximum, cut off at `maximum`.

    float64 [maximum+1] -> the same
    """
    if count == 1:
        return chance
    half = _sum_of(chance, count // 2)
    total = np.convolve(half, half)[: chance.size]
    return np.convolve(total, chance)[: chance.size] if count % 2 else total


def has_open_positions(structure: Structure, tagged: bool | None) -> bool:
    """Whether positions of this structure have trees whose places are not known before they are written.

    `tagged`: whether the target has a tag for each token of the source, so that its places are those of the source.
    """
    return not tagged and any(isinstance(part, Tree) for part in structure.simple)


def unfolds(task: BaseTask | type[BaseTask], structure: Structure, tagged: bool | None) -> bool:
    """Whether greedy decoding of a task's answers opens the places of trees as it writes.

    Raises `DataError` for trees of a task that does not define how they unfold.
    """
    if task.positions_given or not has_open_positions(structure, tagged):
        return False
    cls = task if isinstance(task, type) else type(task)
    if not issubclass(cls, Trees):
        got = f"task {task.name}, which neither defines `opens` nor declares `positions_given`"
        raise DataError("greedy decoding cannot unfold these trees", got=got, fix="`decode=teacher`")
    return True
