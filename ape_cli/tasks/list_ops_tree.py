"""The task `list-ops-tree`: nested operations on lists of digits, as trees.

Source: Nangia and Bowman 2018, "ListOps: A Diagnostic Dataset for Latent Tree Learning" (arXiv:1804.06028); Tay et al.
2020, "Long Range Arena" (arXiv:2011.04006), use longer lists. Operators and digits are theirs. Deviations: the depth of
a tree is drawn first, then its shape, as in `structure.trees.grow`.

`list-ops` stores the same trees as sequences.

Shapes: R trees (rows), T nodes in all, I inner nodes (operators), k the largest number of arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import ragged, rng
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Source, Tokens, option
from ape_cli.tasks._sized import Sized, check_amount
from ape_cli.tasks._trees import mean_nodes

OPERATORS = ["MIN", "MAX", "MED", "SM"]  # their ids follow those of the ten digits, in this order
MIN, MAX, MED, SM = range(4)
DIGITS = 10
_MAX_NODES = 50_000  # the expected number of nodes of a tree of the greatest depth must not exceed it


@dataclass(frozen=True, kw_only=True)
class ListOpsTree(Sized):
    """Evaluate a tree of `MIN`, `MAX`, `MED` and `SM` over digits. Each operator takes 2 to k arguments.

    The source is the tree. Positions are the heap indices of tree(k); the arguments of an operator are its first
    children. The target is a tree of a single node, the value of the source. With `intermediate` it has a node for each
    operator of the source, at the same position, with the value of that operator.

    At the root of a tree of depth $d$, one argument has depth $d - 1$, and the depth of each other argument is drawn
    uniformly from $0..d-1$. The place of the deepest argument, the number of arguments, operators and digits are drawn
    uniformly.

    - `MIN` and `MAX` are the smallest and the largest argument.
    - `MED` is the median. For an even number of arguments it is the mean of the middle two, rounded down.
    - `SM` is the sum modulo 10.

    Raises `UsageError` if an option is out of range, or if trees would be too large.

    >>> task = ListOpsTree(order="depth", depth_mean=2, depth_std=0, arguments=3, intermediate=True)
    >>> row = task.sample(rows=range(1), split="train", seed=42).to_pylist()[0]
    >>> [task.id_names[i] for i in row["source_ids"]], row["source_positions"]
    (['SM', 'MED', '0', '1', 'MIN', '7', '1', '7', 'MIN', '5', '0', '5'], [1, 2, 5, 6, 3, 8, 9, 10, 4, 11, 12, 13])
    >>> [task.id_names[i] for i in row["target_ids"]], row["target_positions"]
    (['1', '0', '1', '0'], [1, 2, 3, 4])
    """

    summary = "the value of nested operations on digits, as trees: MIN(7, MAX(2, 4)) -> 4"
    ordered = True
    positions_given = True

    extent = "depth"
    answer_options = ("intermediate",)
    form_options = ("arguments", "intermediate")
    size_words = ("depth", "depth of the expression, levels")
    preset_options: ClassVar = {
        "small": {"depth_mean": 3, "depth_std": 0.5, "arguments": 4, "intermediate": True},
        "tiny": {"arguments": 3, "intermediate": True},
    }
    source = "Nangia and Bowman 2018, arXiv:1804.06028; Tay et al. 2020, arXiv:2011.04006"

    depth_mean: float = option(5.0, "Mean depth of a tree, in levels.")
    depth_std: float = option(1.0, "Standard deviation of the depth.")
    arguments: int = option(5, "Largest number of arguments of an operator; the smallest is 2.", between=(2, 100))
    intermediate: bool = option(False, "Ask for the value of every operator instead of only the outermost.")

    @property
    def structure(self) -> str:
        """The expression of the structure of the positions: a tree with k branches."""
        return Tree(self.arguments).expression

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest depth that can be drawn, and the reason for the largest."""
        return 1, Tree(self.arguments).max_depth, " (the deepest tree that heap indices hold)"

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the trees would be too large."""
        super().check()
        greatest = min(self.limits[1], round(self.depth_mean + 4 * self.depth_std))
        check_amount("nodes of a tree", mean_nodes(greatest, self._mean_arguments), _MAX_NODES)

    @property
    def _mean_arguments(self) -> float:
        """The mean number of arguments of an operator."""
        return (2 + self.arguments) / 2

    def draw(self, key: U64) -> Source:
        """Draw one tree for each key, in level order. uint64 [R] -> `Source` of R rows"""
        size = self.draw_sizes(key)
        heap, offsets, leaf = self._grow(size, rng.child(key, "shape"))
        word = rng.bits(np.repeat(rng.child(key, "symbols"), np.diff(offsets)), heap)
        symbol = rng.below(word, np.where(leaf, DIGITS, len(OPERATORS))) + np.where(leaf, 0, DIGITS)
        return Source(offsets, heap, FIRST_SYMBOL + symbol, size)

    def _grow(self, depth: I64, key: U64) -> tuple[I64, I64, np.ndarray]:
        """Draw trees of exactly the given depths, in level order, whose inner nodes have 2..k children.

        The random numbers of a node depend on its tree's key and on its heap index. `depth`: int64 [R]; `key`: uint64
        [R]. Returns heap int64 [T], offsets int64 [R+1], and leaf bool [T], like `structure.trees.grow`.
        """
        k, rows = self.arguments, depth.size
        row, heap = np.arange(rows), np.ones(rows, dtype=np.int64)
        levels: list[tuple[I64, I64, np.ndarray]] = []
        while row.size:
            levels.append((row, heap, depth == 0))
            row, heap, depth = (x[depth > 0] for x in (row, heap, depth))
            word = rng.bits(key[row], heap)
            count = 2 + rng.below(word, k - 1)  # of children
            deep = rng.below(rng.bits(word, np.array(0)), count)  # the child of depth d - 1
            child = np.arange(k)
            below = rng.below(rng.bits(word[:, None], child + 1), depth[:, None])  # [I, k]
            below[np.arange(row.size), deep] = depth - 1
            there = child < count[:, None]
            row, heap, depth = np.repeat(row, count), (k * heap[:, None] + child + 2 - k)[there], below[there]
        return trees.by_row(levels, rows)

    def target(self, source: Source) -> Tokens:
        """The target of each source: a tree of the values of all operators, or of the value of the root only."""
        rows = source.size.size
        value, leaf = self._values(source)
        kept = np.flatnonzero(~leaf) if self.intermediate else source.offsets[:-1]
        counts = np.bincount(ragged.rows_of(source.offsets)[kept], minlength=rows)
        return Tokens(ragged.offsets_of(counts), source.position[kept], FIRST_SYMBOL + value[kept])

    def _values(self, source: Source) -> tuple[I64, np.ndarray]:
        """The value of each node, int64 [T], and whether it is a digit, bool [T].

        In level order, the arguments of an operator follow each other, and operators come in the order of their
        arguments. So the i-th operator of all rows has the i-th group of siblings.
        """
        k, heap, value = self.arguments, source.position, source.symbol - FIRST_SYMBOL
        leaf = value < DIGITS
        parent = np.where(heap > 1, (heap - 2) // k + 1, 0)
        first = np.flatnonzero((heap > 1) & (parent != np.roll(parent, 1)))  # a root lies between two rows
        inner = np.flatnonzero(~leaf)
        earlier = np.cumsum(heap > 1)  # of each node: how many arguments there are up to this one
        count = np.diff(np.append(earlier[first] - 1, earlier[-1:]))
        level = Tree(k).level(heap[inner])
        for d in range(int(level.max(initial=-1)), -1, -1):
            on = level == d
            value[inner[on]] = _apply(value, value[inner[on]] - DIGITS, first[on], count[on], k)
        return value, leaf

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: the ten digits, then the operators."""
        return [*map(str, range(DIGITS)), *OPERATORS]

    def expected_tokens(self) -> float:
        """The expected number of nodes of a source."""
        return self.expected(lambda depth: mean_nodes(depth, self._mean_arguments))

    def expected_operators(self) -> float:
        """The expected number of operators of a source: all nodes but the root are arguments of one of them."""
        return (ListOpsTree.expected_tokens(self) - 1) / self._mean_arguments

    def expected_target_tokens(self) -> float:
        """The expected number of values in a target."""
        return self.expected_operators() if self.intermediate else 1.0


def _apply(value: I64, operator: I64, first: I64, count: I64, k: int) -> I64:
    """The values of operators, int64 [I].

    `value`: int64 [T], the values of all nodes; `operator`: int64 [I], `MIN` and so on; `first` and `count`: int64 [I],
    the place of each operator's first argument and the number of its arguments, which follow each other.
    """
    index = np.arange(k)
    there = index < count[:, None]
    ranked = np.where(there, value[np.minimum(first[:, None] + index, value.size - 1)], DIGITS)  # [I, k]
    total = (ranked * there).sum(1) % 10
    ranked.sort(axis=1)  # what is not there comes last
    row = np.arange(first.size)
    median = (ranked[row, (count - 1) // 2] + ranked[row, count // 2]) // 2
    values: Any = np.choose(operator, [ranked[:, 0], ranked[row, count - 1], median, total])
    return np.asarray(values, dtype=np.int64)
