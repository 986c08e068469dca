r"""Axial RoPE: each axis of a grid rotates its own share of the channel pairs, by fixed angles.

Source: Heo et al. 2024, arXiv:2403.13298, section 3.2 ("axial frequency"). Half of the $K/2$ channel pairs of a head
are rotated by $x \cdot \text{base}^{-2t/(K/2)}$, $t = 0, 1, … K/4 - 1$, and the other half by $y$ times the same
frequencies, before the scaling by $1/\sqrt{K}$. The base is 100, because the axes of an image have far fewer places
than a text. With $n$ axes, each gets $K/n$ channels.

Deviations: each axis has a block of adjacent channels, as in the authors' program; in the source's formula the axes
alternate. Scores are the same up to the order of channels. The first axis takes the first block: rows before columns,
where the authors' program has x first. If the axes cannot share the pairs evenly, the first axes get one pair more, as
in `orthogonal-grid`.

This is `orthogonal-grid` with fixed angles and channel pairs as planes.

Shapes: B batch, H heads, N tokens, C axes, K channels of a head. Angles are in radians.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._rotation import Rotations, check_base, frequencies, rotate_pairs
from ape_cli.position.orthogonal import shares


class AxialRope(Scheme):
    """Rotation of the channel pairs of each axis by angles that are proportional to the position on it.

    Argument: `base`, of the frequencies. Raises `UsageError` if it is not above 1, and if a head has fewer pairs of
    channels than the grid has axes.
    """

    structures = ("grid(n)",)
    relative = True
    real_positions = True
    option_help: ClassVar[dict[str, str]] = {"base": "Base of the frequencies."}
    synonyms = ("axial-rotary", "rope-axial", "rope-2d", "2d-rope")
    source = "Heo et al. 2024, arXiv:2403.13298, section 3.2"
    homomorphism = "orthogonal"
    content_dependent = True
    memory = "L D"
    extrapolation = "good"

    def __init__(self, shape: Shape, base: float = 100.0) -> None:
        """Check the base, and give each axis its share of the channels."""
        super().__init__(shape)
        check_base(base, 100)
        self.base, self.shares = base, shares(shape.structure, shape.head_dim)

    def rotations(self, context: Context, _: Context) -> Rotations:
        """The rotations by the angles [B or 1, 1, N, K/2] of positions, which all layers share."""
        axes = enumerate(self.shares)
        at = context.positions  # int64 or floating point [B or 1, N, C]
        angles = [at[..., i, None] * frequencies(share, self.base, at.device) for i, share in axes]
        return Rotations(torch.cat(angles, dim=-1)[:, None])

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn the vectors at each position. [B, H, N, K] -> the same"""
        return rotate_pairs(x, context.cached(context, self.rotations))
