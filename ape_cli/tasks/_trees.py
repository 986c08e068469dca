"""What the tree tasks share: random full trees, leaves and operators from vocabularies apart.

Paper, appendix B: binary trees, depth from the discretised N(7, 1). Positions are heap indices: the root
is 1, the children of i are 2i and 2i+1. Leaf symbols come first in the ids, then operator symbols.

Ours: `branching` k, trees whose nodes have k children or none; `binarise`, which stores source and target
as binary trees, left child the first child, right child the next sibling (`trees.binarise`). They are drawn
and answered as k-ary trees, so the rows of both forms hold the same trees.
Shapes: R rows, T nodes in all.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ape_cli.core import rng
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64, U64
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.structure import Tree, bit_length, trees
from ape_cli.tasks import LATE, Rows, Source, check_whole
from ape_cli.tasks._sized import Sized, over_sizes

_MOST_NODES = 1_000_000  # of a tree, on average at the greatest depths that are drawn
_MEASURED = 2_000  # draws


@dataclass(frozen=True, kw_only=True)
class Trees(Sized):
    """A random tree with random symbols; subclasses say what becomes of it."""

    ordered: ClassVar[bool] = True
    extent: ClassVar[str] = "depth"
    least_depth: ClassVar[int] = 0

    depth_mean: float = 7.0
    depth_std: float = 1.0
    branching: int = field(default=2, metadata=LATE)
    binarise: bool = field(default=False, metadata=LATE)

    @property
    def _form(self) -> str:
        return f"{'binarised ' if self.binarise else ''}tree({self.branching})"

    @property
    def limits(self) -> tuple[int, int, str]:
        return self.least_depth, self.max_depth, f" (the deepest {self._form} that heap indices hold)"

    def check(self) -> None:
        check_whole("branching", self.branching, 2, 1000)
        super().check()
        nodes = trees.mean_nodes(self.greatest_depth, self.branching)
        if nodes > _MOST_NODES:
            raise UsageError(
                "the trees would be too large",
                got=f"{nodes:,.0f} nodes on average in a {self._form} of depth {self.greatest_depth}",
                allowed=f"{_MOST_NODES:,} at depth mean + 4 std",
                fix="choose a smaller depth or branching",
            )

    @property
    def structure(self) -> str:
        return Tree(2 if self.binarise else self.branching).expression

    @property
    @abstractmethod
    def leaves(self) -> int:
        """How many leaf symbols there are."""

    @property
    @abstractmethod
    def operators(self) -> int:
        """How many operator symbols there are."""

    @property
    def max_depth(self) -> int:
        """Of trees whose paths fit heap indices in the form that is stored."""
        return Tree(2).max_depth // self.branching if self.binarise else Tree(self.branching).max_depth

    @property
    def greatest_depth(self) -> int:
        """Four deviations above the mean: deeper trees are too rare to count."""
        return min(self.max_depth, round(self.depth_mean + 4 * self.depth_std))

    def depths(self, key: U64) -> np.ndarray:
        assert not self.sizes
        stream = rng.child(key, "size")
        return rng.normal(stream, self.depth_mean, self.depth_std, self.least_depth, self.max_depth)

    def draw(self, key: U64) -> Source:
        depth = self.depths(key)
        heap, starts, leaf = trees.grow(depth, rng.child(key, "shape"), self.branching)
        word = rng.bits(np.repeat(rng.child(key, "symbols"), np.diff(starts)), heap)
        symbol = rng.below(word, self.operators + leaf * (self.leaves - self.operators))
        symbol += FIRST_SYMBOL + self.leaves
        symbol -= leaf * self.leaves
        return Source(starts, heap, symbol, depth)

    def store(self, rows: Rows) -> Rows:
        """Binary trees, if that is wanted; the size of a source is then the depth of its binary tree."""
        if not self.binarise:
            return rows
        position = trees.binarise(rows.position, self.branching)
        changes: dict[str, Any] = {"position": position}
        if isinstance(rows, Source):
            changes["size"] = np.maximum.reduceat(Tree(2).level(position), rows.starts[:-1])
        return replace(rows, **changes)

    def symbols(self) -> list[str]:
        return [f"x{i}" for i in range(self.leaves)] + [f"f{i}" for i in range(self.operators)]

    @property
    @over_sizes
    def mean_size(self) -> float:
        return self._binary_depth if self.binarise else self.depth_mean

    @cached_property
    def _binary_depth(self) -> float:
        """Mean depth of the binarised sources, measured on 2,000 draws of one fixed stream: a function of the
        options alone, some tenths of a step from the distribution's own at most."""
        keys = rng.rows(0, "binarise", np.arange(_MEASURED))
        parts = np.array_split(keys, 1 + int(_MEASURED * self.mean_tokens / 1_000_000))
        return float(np.concatenate([self.store(self.draw(part)).size for part in parts]).mean())

    @property
    @over_sizes
    def mean_tokens(self) -> float:
        return trees.mean_nodes(round(self.depth_mean), self.branching)

    # How a target unfolds, for decoding without its nodes' places -----------------------------

    def closing(self, op: I64, pointer: I64) -> I64:
        """The symbol that is a leaf of each target though it is an operator; -1 where there is none. [R] each

        `op`: the row's operator; `pointer`: the symbol at the index leaf. They matter to tree-ops alone.
        """
        return np.full_like(op, -1)

    def opens(self, position: I64, symbol: I64, closing: I64) -> I64:
        """The places that open when a node is written. [R] each -> [R, k] of the stored structure, 0 for none

        An operator opens its children, leaves and the row's `closing` symbol open none. In a binarised
        tree an operator opens the left one, and whatever has siblings after it the right one. What no
        heap index holds does not open, nor does anything at position 0.
        """
        first = FIRST_SYMBOL + self.leaves
        grows = (position > 0) & (symbol >= first) & (symbol < first + self.operators) & (symbol != closing)
        if self.binarise:
            earlier = bit_length(position ^ (position + 1)) - 1  # siblings: as many steps to the right at the end
            wanted = np.stack([grows, (position > 1) & (earlier < self.branching - 1)], axis=1)
        else:
            wanted = np.repeat(grows[:, None], self.branching, axis=1)
        tree = Tree(wanted.shape[1])
        wanted &= (tree.level(position) < tree.max_depth)[:, None]
        children = (tree.branching * (position - 1) + 2)[:, None] + np.arange(tree.branching)
        return np.where(wanted, children, 0)


@dataclass(frozen=True, kw_only=True)
class PlainTrees(Trees):
    """Trees over a vocabulary split evenly into leaves and operators (paper: 10 and 10)."""

    vocabulary: int = 20

    def check(self) -> None:
        super().check()
        check_whole("vocabulary", self.vocabulary, 2, 60_000)

    @property
    def leaves(self) -> int:
        return (self.vocabulary + 1) // 2

    @property
    def operators(self) -> int:
        return self.vocabulary // 2
