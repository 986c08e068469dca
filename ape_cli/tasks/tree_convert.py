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
    source_notation: str = option(
        "prefix",
        "Notation of the source: prefix, postfix, infix (with brackets) or level.",
        name="from",
        among=NOTATIONS,
    )
    target_notation: str = option(
        "postfix", "Notation of the target: prefix, postfix, infix or level.", name="to", among=NOTATIONS
    )

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
        nodes = self.expected(lambda depth: trees.mean_nodes(depth, self.branching))
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
    return offsets, trees.post_order(offsets, heap, branching) if notation == "postfix" else _prefix(
        offsets, heap, branching
    )


def _prefix(offsets: I64, heap: I64, branching: int) -> I64:
    """The places of the nodes in pre-order. int64 [R+1], int64 [T] -> int64 [T]"""
    return trees.linearise(ragged.rows_of(offsets), heap, "depth", branching)


def _infix(offsets: I64, heap: I64, branching: int) -> tuple[I64, I64]:
    """The offsets int64 [R+1] and the places int64 [S] of `written`, with brackets.

    A subtree of n nodes, of which i are inner ones, takes n + 2i symbols. Before it come the whole subtrees to its
    left, an opening bracket for each of its ancestors, and the operator of each ancestor that it is not in the first
    child of.
    """
    depth = Tree(branching).level(heap)
    prefix, postfix = _prefix(offsets, heap, branching), trees.post_order(offsets, heap, branching)
    # n is the rank in post-order minus the rank in pre-order, plus the depth and 1.
    nodes = _rank(postfix) - _rank(prefix) + depth + 1
    leaf, width = nodes == 1, nodes + 2 * (nodes // branching)
    inner, child = trees.children(offsets, leaf, branching)  # with the first child of each inner node
    # Of the nodes before each one in pre-order, `depth` are its ancestors. The rows before count as they are written.
    opened = ~leaf[prefix]
    begin = np.empty_like(heap)
    begin[prefix] = np.arange(heap.size) + 2 * (np.cumsum(opened) - opened)
    begin += _later_steps(heap, depth, branching) - 2 * depth
    cut = ragged.offsets_of(width[offsets[:-1]])
    index = np.empty(cut[-1], dtype=np.int64)
    index[begin[leaf]] = np.flatnonzero(leaf)
    index[begin[inner]] = OPENING
    index[begin[inner] + 1 + width[child]] = inner
    index[begin[inner] + width[inner] - 1] = CLOSING
    return cut, index


def _rank(order: I64) -> I64:
    """The inverse of a permutation. int64 [T] -> int64 [T]"""
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank


def _later_steps(heap: I64, depth: I64, branching: int) -> I64:
    """The number of steps on the way to each node that lead to a child that is not the first. int64 [T] -> int64 [T]"""
    tree, steps = Tree(branching), np.zeros_like(heap)
    for up in range(int(depth.max(initial=0))):
        below = np.flatnonzero(depth > up)
        steps[below] += tree.branch(tree.ancestor(heap[below], np.full(below.size, up))) > 0
    return steps
