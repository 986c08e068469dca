"""Orthogonal for trees, with one generator for all branches: only the depth of a node is encoded."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Shape
from ape_cli.position._branches import Branches
from ape_cli.position.orthogonal_tree import OrthogonalTree
from ape_cli.structure import Structure


class _OneGenerator(Branches):
    """The same generator for each branch of a head."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        """Keep the generator of the first branch."""
        super().__init__(structure, channels, heads, generator)
        self.branches = len(self.free)
        self.free = nn.Parameter(self.free.detach()[:1].clone())  # A: [1, H, K, K]

    def _exact_generators(self) -> Tensor:
        """W of each branch and head, the same for all branches. -> [branch, H, K, K]"""
        return super()._exact_generators().expand(self.branches, -1, -1, -1)


class OrthogonalTreeOneGenerator(OrthogonalTree):
    """A power of one orthogonal matrix, with the depth of the node as its exponent."""

    unique = False

    def draw_operators(self, shape: Shape) -> _OneGenerator:
        """The operators of the structure."""
        return _OneGenerator(shape.structure, shape.head_dim, shape.heads, shape.generator)
