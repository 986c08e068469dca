"""Rope with the start angles of `orthogonal-seq` in place of its own.

With `learned=true` it differs from `orthogonal-seq` only in the basis, which is the identity, and the locality bias.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._operators import start_angles
from ape_cli.position._rotation import Rotations, rotate_pairs


class RopeSpread(Scheme):
    """Rotation of channel pairs by angles that are spread over 0 to pi and differ between heads."""

    structures = ("seq",)
    relative = True
    option_help: ClassVar[dict[str, str]] = {"learned": "Learn the angles."}
    source = "Algebraic Positional Encodings, sections 3.1 and 4.2, without the basis"
    homomorphism = "orthogonal"
    content_dependent = True
    variants = ({"learned": True},)

    def __init__(self, shape: Shape, learned: bool = False) -> None:
        """Create the angles, float32 [H, K/2] in radians. `learned`: whether they are parameters."""
        super().__init__(shape)
        start = start_angles(1, shape.heads, shape.head_dim // 2)[0].float()
        self.angles = nn.Parameter(start) if learned else nn.Buffer(start)

    def rotations(self, context: Context, _: Context) -> Rotations:
        """The rotations by the angles [B or 1, H, N, K/2] of positions."""
        return Rotations(context.positions[:, None, :, None] * self.angles.to(torch.float64)[None, :, None])

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn the vectors at each position. [B, H, N, K] -> the same"""
        return rotate_pairs(x, context.cached(context, self.rotations))
