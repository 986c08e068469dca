"""What the tree tasks share: random full binary trees, leaves and operators from vocabularies apart.

Paper, appendix B: depth from the discretised N(7, 1). Positions are heap indices: the root is 1,
the children of i are 2i and 2i+1. Leaf symbols come first in the ids, then operator symbols.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ape_cli import streams, trees
from ape_cli.schema import FIRST_SYMBOL
from ape_cli.streams import U64
from ape_cli.structure import Tree
from ape_cli.tasks import Source, Task, check_sizes, check_whole

MAX_DEPTH = Tree(2).max_depth


@dataclass(frozen=True, kw_only=True)
class Trees(Task):
    """A random tree with random symbols; subclasses say what becomes of it."""

    structure: ClassVar[str] = "tree(2)"
    least_depth: ClassVar[int] = 0

    depth_mean: float = 7.0
    depth_std: float = 1.0

    def __post_init__(self) -> None:
        check_sizes("depth", self.depth_mean, self.depth_std, self.least_depth, MAX_DEPTH)

    @property
    @abstractmethod
    def leaves(self) -> int:
        """How many leaf symbols there are."""

    @property
    @abstractmethod
    def operators(self) -> int:
        """How many operator symbols there are."""

    def depths(self, key: U64) -> np.ndarray:
        stream = streams.child(key, "size")
        return streams.normal(stream, self.depth_mean, self.depth_std, self.least_depth, MAX_DEPTH)

    def draw(self, key: U64) -> Source:
        depth = self.depths(key)
        heap, starts, leaf = trees.grow(depth, streams.child(key, "shape"))
        word = streams.bits(np.repeat(streams.child(key, "symbols"), np.diff(starts)), heap)
        count = np.where(leaf, self.leaves, self.operators)
        symbol = FIRST_SYMBOL + np.where(leaf, 0, self.leaves) + streams.below(word, count)
        return Source(starts, heap, symbol, depth)

    def symbols(self) -> list[str]:
        return [f"x{i}" for i in range(self.leaves)] + [f"f{i}" for i in range(self.operators)]

    @property
    def mean_size(self) -> float:
        return self.depth_mean

    @property
    def mean_tokens(self) -> float:
        return trees.mean_nodes(round(self.depth_mean))


@dataclass(frozen=True, kw_only=True)
class PlainTrees(Trees):
    """Trees over a vocabulary split evenly into leaves and operators (paper: 10 and 10)."""

    vocabulary: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("vocabulary", self.vocabulary, 2, 60_000)

    @property
    def leaves(self) -> int:
        return (self.vocabulary + 1) // 2

    @property
    def operators(self) -> int:
        return self.vocabulary // 2
