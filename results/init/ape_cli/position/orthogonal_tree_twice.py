"""Orthogonal for trees, started as in the authors' program: each frequency of RoPE twice, and half of them."""

from __future__ import annotations

import torch

from ape_cli.position import Shape
from ape_cli.position._branches import Branches
from ape_cli.position._operators import ROPE_BASE, skew_of
from ape_cli.position._rotation import frequencies
from ape_cli.position.orthogonal_tree import OrthogonalTree


class OrthogonalTreeTwice(OrthogonalTree):
    """Orthogonal operators for trees, whose generators start with repeated frequencies in pairs of channels."""

    unique = False

    def draw_operators(self, shape: Shape) -> Branches:
        """The operators of the structure."""
        operators = Branches(shape.structure, shape.head_dim, shape.heads, shape.generator)
        angles = frequencies(shape.head_dim, ROPE_BASE)[::2].repeat_interleave(2)
        start = skew_of(angles, torch.eye(shape.head_dim, dtype=torch.float64)) / 2
        operators.free.data.copy_(start.expand_as(operators.free))
        return operators
