"""Orthogonal for sequences, with the same learned angles in all heads. Each head has its own basis."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Shape
from ape_cli.position._operators import start_angles
from ape_cli.position._powers import Powers
from ape_cli.position.orthogonal_seq import OrthogonalSeq
from ape_cli.structure import Structure


class _SharedAngles(Powers):
    """Powers whose angles are the same in all heads."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        """Create one set of angles, [1, K/2], and a basis for each head."""
        super().__init__(structure, channels, heads, generator)
        self.heads = heads
        self.angles = nn.Parameter(start_angles(1, 1, channels // 2)[0].float())

    def unit(self) -> Tensor:
        """The angles of one step. -> float64 [H, K/2]"""
        return self.angles.double().expand(self.heads, -1)


class OrthogonalSeqSharedAngles(OrthogonalSeq):
    """Powers of an orthogonal matrix of each head, with the same angles in all heads."""

    def draw_operators(self, shape: Shape) -> _SharedAngles:
        """The operators of the structure."""
        return _SharedAngles(shape.structure, shape.head_dim, shape.heads, shape.generator)
