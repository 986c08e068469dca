"""Orthogonal, for sequences: position p is the p-th power of one orthogonal matrix per head.

Source: Algebraic Positional Encodings, sections 3.1 and 4.2, appendix A.
W = exp(S), S skew-symmetric, near the identity at first; q' = W^p q and k' = W^s k, so that the score
is q' W^(s-p) k: it depends on the path from query to key alone. One W per head, shared by all layers.

W is held in spectral form (appendix A): S = Q T Q' with Q = exp(A - A') and angles t, both learned, so
W^p = Q R(p t) Q' with R a rotation of channel pairs: exact at any p, no repeated multiplication. The
Q on the left of both sides cancels in the score and is not applied.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape, Side
from ape_cli.position._orthogonal import skew, skew_of, start_angles
from ape_cli.position._rotation import rotate_pairs, turns


class OrthogonalSeq(Scheme):
    relative = True
    default_decay = 0.98
    source = "Algebraic Positional Encodings, section 3.1"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        k, h = shape.head_dim, shape.heads
        self.angles = nn.Parameter(start_angles(1, h, k // 2)[0].float())  # [H, K/2]
        self.basis = nn.Parameter(torch.randn(h, k, k, generator=shape.generator) * k**-0.5)  # A: [H, K, K]

    def generators(self) -> Tensor:
        """W of each head, of the one branch. -> [1, H, K, K]"""
        return torch.linalg.matrix_exp(skew_of(self.angles, torch.linalg.matrix_exp(skew(self.basis))))[None]

    def prepare(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Q [H, K, K] and the angles p t [B or 1, H, N, K/2]."""
        with torch.autocast(positions.device.type, enabled=False):  # in bf16 it would not stay orthogonal
            q = torch.linalg.matrix_exp(skew(self.basis))
        return q, positions[:, None, :, None] * self.angles.double()[:, None, :]

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """R(p t) Q' x, which is W^p x seen from the basis Q."""
        q, angle = context.state
        return rotate_pairs(x @ q.to(x.dtype), turns(angle, x.dtype))
