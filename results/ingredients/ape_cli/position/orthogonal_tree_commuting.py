"""Orthogonal for trees, with generators that commute: left-right and right-left have the same operator.

The branches of a head have their own learned angles, but one learned basis: W_b = Q R(t_b) Q'. The operator of a path
then depends only on how often it takes each branch, so that different nodes share an operator.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Shape
from ape_cli.position._branches import Branches
from ape_cli.position._operators import exact, exponential, random_orthogonal, skew, skew_of, start_angles
from ape_cli.position.orthogonal_tree import OrthogonalTree
from ape_cli.structure import Structure


class _Commuting(Branches):
    """Generators with a common basis in each head."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        """Draw a basis for each head, and set the start angles of `orthogonal-tree`."""
        super().__init__(structure, channels, heads, generator)
        branches = len(self.free)
        self.angles = nn.Parameter(start_angles(branches, heads, channels // 2).float())  # [branch, H, K/2]
        draw = torch.Generator().manual_seed(generator.initial_seed() if generator is not None else 0)
        start = random_orthogonal((heads, channels, channels), draw).float()
        self.register_buffer("start", start)  # a change of basis that is learned acts on it
        self.free = nn.Parameter(torch.zeros(heads, channels, channels))  # A: [H, K, K]

    def _exact_generators(self) -> Tensor:
        """W of each branch and head. -> [branch, H, K, K]"""
        free = exact(self.free)
        basis = self.start.to(free) @ exponential(skew(free))
        return exponential(skew_of(self.angles.to(free), basis.expand(len(self.angles), -1, -1, -1)))


class OrthogonalTreeCommuting(OrthogonalTree):
    """A product of commuting orthogonal matrices, one for each branch taken."""

    unique = False

    def draw_operators(self, shape: Shape) -> _Commuting:
        """The operators of the structure."""
        return _Commuting(shape.structure, shape.head_dim, shape.heads, shape.generator)
