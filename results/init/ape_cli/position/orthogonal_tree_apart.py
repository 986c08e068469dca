"""Orthogonal for trees, started at the angles of RoPE, with random planes for each branch and head."""

from __future__ import annotations

import torch

from ape_cli.position import Shape
from ape_cli.position._branches import Branches
from ape_cli.position._operators import ROPE_BASE, random_orthogonal, skew_of
from ape_cli.position._rotation import frequencies
from ape_cli.position.orthogonal_tree import OrthogonalTree


class OrthogonalTreeApart(OrthogonalTree):
    """Orthogonal operators for trees, whose generators start with RoPE's angles in random planes."""

    def draw_operators(self, shape: Shape) -> Branches:
        """The operators of the structure."""
        operators = Branches(shape.structure, shape.head_dim, shape.heads, shape.generator)
        draw = torch.Generator().manual_seed(shape.generator.initial_seed() if shape.generator is not None else 0)
        basis = random_orthogonal(tuple(operators.free.shape), draw)
        angles = frequencies(shape.head_dim, ROPE_BASE).expand(*operators.free.shape[:2], -1)
        operators.free.data.copy_(skew_of(angles, basis) / 2)
        return operators
