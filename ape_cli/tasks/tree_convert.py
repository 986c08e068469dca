"""The task `tree-convert`: a tree is written in one notation, and the target is the same tree in another.

A notation writes the nodes of a full tree as a sequence of symbols. It can be parsed without positions, because a node
has either k children or none, and leaves and operators use different symbols:

| notation | order | + over 1 and * over 2, 3 |
|---|---|---|
| `prefix` | an operator, then its children | `+ 1 * 2 3` |
| `postfix` | the children, then their operator | `1 2 3 * +` |
| `infix` | in brackets: the first child, the operator, the other children | `( 1 + ( 2 * 3 ) )` |
| `level` | level by level, from left to right | `+ 1 * 2 3` |

Shapes: R trees (rows), T nodes in all, S symbols that are written in all, k branches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ape_cli.core import ragged
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, trees
from ape_cli.tasks import Rows, Source, Tokens, option
from ape_cli.tasks._sized import Sized
from ape_cli.tasks._trees import mean_nodes
from ape_cli.tasks.tree_copy import TreeCopy

NOTATIONS = ("prefix", "postfix", "infix", "level")
OPENING, CLOSING = -1, -2  # places of brackets, which are no nodes


@dataclass(frozen=True, kw_only=True)
class TreeConvert(Sized):
    """Convert a tree from one notation to another. Both are plain sequences, from which the tree has to be inferred.

    Trees are those of `tree-copy`. Positions are those of a sequence, so the task compares schemes for sequences on
    hierarchical data; schemes for trees cannot read it. If both notations are the same, the task is to copy a sequence.
    The task is ours.

    The tree decides the split of a row, so no tree occurs in two splits, in whatever notation. The size of a source is
    the depth of its tree. In Python, the options `from` and `to` are `source_notation` and `target_notation`.

    Raises `UsageError` if an option is out of range, or if trees would be too large.

    >>> task = TreeConvert(depth_mean=2, depth_std=0, target_notation="infix")
    >>> row = task.sample(rows=range(1), split="train", seed=2).to_pylist()[0]
    >>> " ".join(task.id_names[i] for i in row["source_ids"])
    'f3 x3 f1 x5 x2'
    >>> " ".join(task.id_names[i] for i in row["target_ids"])
    '( x3 f3 ( x5 f1 x2 ) )'
    """

    structure = "seq"
    summary = "a tree from one notation to another: f x g y z -> x y z g f"
    source = "ours; the trees of Algebraic Positional Encodings, section 4.1"
    extent = "depth"
    size_words = ("depth", "depth of the tree that the source writes, steps from the root")
    answer_options = ("from", "to")
    form_options = ("branching", "from", "to")

    depth_mean: float = option(7.0, "Mean depth of a tree, in levels.")
    depth_std: float = option(1.0, "Standard deviation of the depth.")
    branching: int = option(2, "Number of children of an inner node.", between=(2, 1000))
    vocabulary: int = option(20, "Number of symbols, brackets not counted.", between=(2, 60_000))
    source_notation: str = option("prefix", "Source: prefix, postfix, infix or level.", name="from", among=NOTATIONS)
    target_notation: str = option("postfix", "Target: prefix, postfix, infix or level.", name="to", among=NOTATIONS)

    def check(self) -> None:
        """Check the options. Raises `UsageError` if one is out of range or if the trees would be too large."""
        _ = self._trees  # its constructor checks the other options

    @cached_property
    def _trees(self) -> TreeCopy:
        """The task that draws the trees. Raises `UsageError` if an option is out of range."""
        names = ("depth_mean", "depth_std", "branching", "vocabulary")
        return TreeCopy(**{name: getattr(self, name) for name in names})

    @property
    def limits(self) -> tuple[int, int, str]:
        """The smallest and the largest depth that can be drawn, and the reason for the largest."""
        return self._trees.limits

    def symbols(self) -> list[str]:
        """The readable names of the ids from 3 on: leaf symbols, operators, and brackets if they are written."""
        brackets = ["(", ")"] if "infix" in (self.source_notation, self.target_notation) else []
        return [*self._trees.symbols(), *brackets]

    def expected_tokens(self) -> float:
        """The expected number of symbols of a source."""
        return self._mean_length(self.source_notation)

    def expected_target_tokens(self) -> float:
        """The expected number of symbols of a target."""
        return self._mean_length(self.target_notation)

    def _mean_length(self, notation: str) -> float:
        """The expected number of symbols of a tree: its nodes and its brackets."""
        nodes = self.expected(lambda depth: mean_nodes(depth, self.branching))
        return nodes + 2 * (nodes - 1) / self.branching if notation == "infix" else nodes

    def draw(self, key: U64) -> Source:
        """Draw one tree for each key, with heap indices, in level order. uint64 [R] -> `Source` of R rows"""
        return self._trees.draw(key)

    def target(self, source: Source) -> Tokens:
        """The tree of each source, with heap indices, in level order. `store` writes it in the target's notation."""
        return self._trees.target(source)

    def store(self, rows: Rows) -> Rows:
        """The rows as the dataset holds them: sources in one notation, all others in the other notation."""
        notation = self.source_notation if isinstance(rows, Source) else self.target_notation
        offsets, node = written(rows.offsets, rows.position, notation, self.branching)
        names = FIRST_SYMBOL + self._trees.leaves + self._trees.operators  # brackets follow
        symbol = rows.symbol[node]
        symbol[node == OPENING], symbol[node == CLOSING] = names, names + 1
        return replace(rows, offsets=offsets, position=ragged.indices_of(offsets), symbol=symbol)


def written(offsets: I64, heap: I64, notation: str, branching: int) -> tuple[I64, I64]:
    """Write full trees, which are in level order, in a notation.

    `offsets`: int64 [R+1], where each tree begins, and the end; `heap`: int64 [T], the heap indices. Returns where each
    written row begins, and the end, int64 [R+1], and the place of the node that stands at each place of the writing,
    int64 [S]. A bracket has the place `OPENING` or `CLOSING`.

    >>> offsets, heap = np.array([0, 5]), np.array([1, 2, 3, 6, 7])
    >>> [written(offsets, heap, notation, 2)[1].tolist() for notation in ("prefix", "postfix", "infix")]
    [[0, 1, 2, 3, 4], [1, 3, 4, 2, 0], [-1, 1, 0, -1, 3, 2, 4, -2, -2]]
    """
    if notation == "level":
        return offsets, np.arange(heap.size)
    if notation == "infix":
        return _infix(offsets, heap, branching)
    if notation == "postfix":
        return offsets, trees.post_order(offsets, heap, branching)
    return offsets, trees.linearise(ragged.rows_of(offsets), heap, "depth", branching)


def _infix(offsets: I64, heap: I64, branching: int) -> tuple[I64, I64]:
    """The offsets int64 [R+1] and the places int64 [S] of `written`, with brackets.

    Symbols are sorted by their paths, which have a digit for each step. Below an inner node, they come in the order:
    its opening bracket, its first child, its own symbol, its other children, its closing bracket.
    """
    tree, row, level = Tree(branching), ragged.rows_of(offsets), Tree(branching).level(heap)
    prefix = trees.linearise(row, heap, "depth", branching)
    inner = prefix[np.append(level[prefix][1:] > level[prefix][:-1], False)]  # its first child follows each of these
    opening, closing = np.full_like(inner, OPENING), np.full_like(inner, CLOSING)
    own = np.zeros_like(heap)
    own[inner] = 2
    node = np.concatenate([np.arange(heap.size), inner, inner])  # of each symbol
    last = np.concatenate([own, np.zeros_like(inner), np.full_like(inner, branching + 2)])
    steps, digits = level[node], []
    for step in range(1, int(level.max(initial=0)) + 2):
        child = tree.branch(tree.ancestor(heap[node], np.maximum(steps - step, 0)))
        digits.append(np.where(step <= steps, child + 1 + (child > 0), np.where(step == steps + 1, last, 0)))
    line = np.lexsort([*digits[::-1], row[node]])
    cut = ragged.offsets_of(np.bincount(row[node], minlength=offsets.size - 1))
    return cut, np.concatenate([np.arange(heap.size), opening, closing])[line]
