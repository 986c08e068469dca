"""RoPE: queries and keys turned by angles proportional to their positions.

Source: Su et al. 2021, arXiv:2104.09864, section 3.2: the pair of channels (2i, 2i+1) of each head is
turned by p * base^(-2i/K), base 10000. The score depends on the offset alone.
Nothing is cached between forward passes: the angles follow the positions that are given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.errors import UsageError
from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._rotation import rotate_pairs, turns


class Rope(Scheme):
    relative = True
    source = "Su et al. 2021, arXiv:2104.09864, section 3.2"

    def __init__(self, shape: Shape, base: float = 10_000.0) -> None:
        super().__init__(shape)
        if not base > 1.0:
            raise UsageError("bad base", got=base, allowed="above 1", fix="the source's is 10000")
        self.base = base

    def prepare(self, positions: Tensor) -> Tensor:
        """The angles. [B or 1, N] -> [B or 1, 1, N, K/2], float64"""
        two_i = torch.arange(0, self.shape.head_dim, 2, dtype=torch.float64, device=positions.device)
        return (positions[:, :, None] * self.base ** (-two_i / self.shape.head_dim))[:, None]

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        return rotate_pairs(x, turns(context.state, x.dtype))
