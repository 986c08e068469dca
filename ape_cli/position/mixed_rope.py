r"""Mixed RoPE: each channel pair is rotated by a learned linear function of all coordinates.

Source: Heo et al. 2024, arXiv:2403.13298, section 3.2 ("mixed learnable frequency"). Pair $t$ of head $h$ is rotated by
$x f_x[h, t] + y f_y[h, t]$ before the scaling by $1/\sqrt{K}$. The frequencies are learned. They start as those of
axial RoPE with base 10, in axes rotated at random for each head: half of the pairs follow the direction
$(\cos a, \sin a)$, the other half $(-\sin a, \cos a)$. A query can therefore look along diagonals, which no pair of
axial RoPE can.

Deviations: the layers share the frequencies, because a single set of operators serves all layers here; the source has a
set for each layer. With $n$ axes, the frame is rotated by a random rotation of $n$ dimensions, and its directions share
the pairs as the axes in `axial-rope` do.

The generators of all axes commute, so this is a homomorphism. Those of `lie` do not.

Shapes: B batch, H heads, N tokens, C axes, K channels of a head. Angles are in radians.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._operators import random_orthogonal
from ape_cli.position._rotation import Rotations, check_base, frequencies, rotate_pairs
from ape_cli.position.orthogonal import shares


class MixedRope(Scheme):
    """Rotation of channel pairs by learned angles, to which every axis contributes.

    Argument: `base`, of the frequencies at the start. Raises `UsageError` if it is not above 1, and if a head has fewer
    pairs of channels than the grid has axes.
    """

    structures = ("grid(n)",)
    relative = True
    real_positions = True
    option_help: ClassVar[dict[str, str]] = {"base": "Base of the initial frequencies."}
    synonyms = ("rope-mixed", "mixed-rotary")
    source = "Heo et al. 2024, arXiv:2403.13298, section 3.2"
    homomorphism = "orthogonal"
    content_dependent = True
    memory = "L D"
    extrapolation = "good"

    def __init__(self, shape: Shape, base: float = 10.0) -> None:
        """Check the base, and turn the frame of each head at random."""
        super().__init__(shape)
        check_base(base, 10)
        axis_shares = shares(shape.structure, shape.head_dim)
        along = torch.cat(
            [torch.full((share // 2,), i) for i, share in enumerate(axis_shares)]
        )  # int64 [K/2], the axis
        size = torch.cat([frequencies(share, base) for share in axis_shares])  # [K/2]
        frame = random_orthogonal((shape.heads, len(axis_shares), len(axis_shares)), shape.generator)
        frame[..., -1] *= torch.linalg.det(frame)[:, None]  # a rotation, without a reflection
        self.frequencies = nn.Parameter((frame[..., along] * size).transpose(0, 1).contiguous().float())  # [C, H, K/2]

    def rotations(self, context: Context, _: Context) -> Rotations:
        """The rotations by the angles [B or 1, H, N, K/2] of positions, which all layers share."""
        at = context.positions.double()  # [B or 1, N, C]
        return Rotations(torch.einsum("bnc,chk->bhnk", at, self.frequencies.double()))

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """Turn the vectors at each position. [B, H, N, K] -> the same"""
        return rotate_pairs(x, context.cached(context, self.rotations))
