"""LieRE: positions are rotations exp(x A + y B), with learned skew-symmetric A and B for each head.

Source: Ostmeier et al. 2024, arXiv:2406.10322: R(p) = exp(sum_i p_i A_i), with one A_i for each axis, and q' = R(p) q,
k' = R(p) k. `block` is the number of channels of each block of the generators, as in LieRE_8 and LieRE_64 of the
source. 0 means one block of all channels of a head.

The generators do not commute, so on a grid this is not a homomorphism: exp(A + B) is not exp(A) exp(B), and a score
depends on both places and not only on the path between them. The claims say so. On `grid(2)` and `grid(4)`, with the
8 channels of a head that `ape check` uses, entries of [x y] and [x] [y] differ by up to ERROR (orthogonal matrices of
this size differ by at most 2). In two cases the generators do commute, and then the claims and the laws hold:
- on one axis, p A with a single generator, which is learned RoPE in a learned basis (`orthogonal-seq`);
- with `block=2`, because all rotations of a plane commute. This is `mixed-rope` with another start.

Deviations: the layers share the generators, because one set of operators serves all layers here. Positions are steps,
where the source divides them by the size of the image, so generators start near the identity as those of
`orthogonal-tree` do, where the source draws entries from 0 to 2 pi.
Exponentials are computed in float64, because far positions have large generators, once for each distinct position.
Rotations come before the scaling by 1/sqrt(K).

Shapes: B batch, H heads, N tokens, C axes, K channels of a head, b channels of a block, P distinct positions. G blocks
of all heads, G = H K/b. Angles are in radians.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import Context, FastScheme, Shape, Side
from ape_cli.position._grouped import Products, Stage, groups, tiles, TILE
from ape_cli.position._operators import exponential, fixed_exponential, random_orthogonal, skew, skew_of, start_angles

_HALVINGS = 16  # on CUDA: for row sums of the exponents below 2^16


class Lie(FastScheme):
    """Rotations whose generator is a linear function of the coordinates."""

    structures = ("grid(n)", "seq")
    real_positions = True
    option_help: ClassVar[dict[str, str]] = {"block": "Channels of each block of the generators; 0: all of a head."}
    synonyms = ("liere",)
    source = "Ostmeier et al. 2024, arXiv:2406.10322"
    content_dependent = True
    variants = ({"block": 2},)
    memory = "L D^2 / H"
    extrapolation = "good"

    def __init__(self, shape: Shape, block: int = 0) -> None:
        super().__init__(shape)
        width, k = shape.structure.width, shape.head_dim
        self.block = block or k
        if self.block < 2 or self.block % 2 or k % self.block:
            raise UsageError("bad block", got=block, allowed=f"0, or an even number that divides {k}", fix="0")
        if width == 1 or self.block == 2:
            self.homomorphism, self.relative = "orthogonal", True
        count = shape.heads * k // self.block
        basis = random_orthogonal((width, count, self.block, self.block), shape.generator)
        angles = start_angles(width, count, self.block // 2)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # [C, G, b, b]

    def operators(self, positions: Tensor) -> Tensor:
        """[P, C] -> [P, G, b, b]"""
        with torch.autocast(self.free.device.type, enabled=False):
            exponent = torch.tensordot(positions.double(), skew(self.free.double()), dims=1)
            found = fixed_exponential(exponent, _HALVINGS) if exponent.is_cuda else exponential(exponent)
            return found.to(self.free.dtype)
