"""Operators of `seq` and `cyclic(n)`: position p is the p-th power of one orthogonal matrix per head.

Source: Algebraic Positional Encodings, sections 3.1, 3.4.2 and 4.2, appendix A.
W = exp(S), S skew-symmetric, held in spectral form (appendix A): S = Q T Q' with Q = exp(A - A') and
angles t, so W^p = Q R(p t) Q' with R a rotation of channel pairs: exact at any p, no repeated
multiplication. The Q on the left is what all positions have in common, and is not applied.

On `seq` the angles are learned, near the identity at first. On `cyclic(n)` they are fixed multiples of
2 pi / n, so that W^n = I: 1, 0, 2, 3, ... n // 2, dealt out in turn, every character of the group if
there are n // 2 + 1 pairs or more; the multiple 0 keeps channels that match content at any place. p times
the multiple is reduced modulo n as an integer, so the period is exact, not only to rounding. In a ring
there is no place outside: SOS, the empty path, stands where the last place does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ape_cli.position._algebra import Interpretation
from ape_cli.position._orthogonal import skew, skew_of, start_angles
from ape_cli.position._rotation import rotate_pairs, turns
from ape_cli.structure import Cyclic, Seq, Structure

State = tuple[Tensor | None, Tensor]  # Q [H, K, K] and the angles p t [B or 1, H, N, K/2], float64


class Powers(Interpretation):
    """`seq`: learned angles and a learned basis."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.structure = structure
        self._set_angles(heads, channels // 2)
        free = torch.randn(heads, channels, channels, generator=generator)
        # A: [H, K, K]; of a single pair none, since rotations of a plane commute with any Q
        self.basis = nn.Parameter(free * channels**-0.5) if channels > 2 else None

    def _set_angles(self, heads: int, pairs: int) -> None:
        self.angles = nn.Parameter(start_angles(1, heads, pairs)[0].float())  # [H, K/2]

    def unit(self) -> Tensor:
        """The angles t of one step. -> [H, K/2], float64"""
        return self.angles.double()

    def angle(self, positions: Tensor) -> Tensor:
        """p t. [B or 1, N] -> [B or 1, H, N, K/2], float64"""
        return positions[:, None, :, None] * self.unit()[:, None, :]

    def generators(self) -> Tensor:
        """W of each head, of the one branch. -> [1, H, K, K]"""
        angles, q = self.unit(), self.planes()
        q = torch.eye(2, dtype=angles.dtype).expand(len(angles), 2, 2) if q is None else q
        return torch.linalg.matrix_exp(skew_of(angles.to(q.dtype), q))[None]

    def planes(self) -> Tensor | None:
        """Q, whose columns span the planes of rotation. -> [H, K, K], None for the identity"""
        return None if self.basis is None else torch.linalg.matrix_exp(skew(self.basis))

    def prepare(self, positions: Tensor) -> State:
        with torch.autocast(positions.device.type, enabled=False):  # in bf16 it would not stay orthogonal
            return self.planes(), self.angle(positions)

    def turn(self, x: Tensor, state: State) -> Tensor:
        """R(p t) Q' x, which is W^p x seen from the basis Q."""
        return rotate_pairs(self.rest(x, state), turns(state[1], x.dtype))

    def rest(self, x: Tensor, state: State) -> Tensor:
        """Q' x"""
        return x if state[0] is None else x @ state[0].to(x.dtype)


class Ring(Powers):
    """`cyclic(n)`: angles that are multiples of 2 pi / n, and a learned basis."""

    multiples: Tensor  # int64 [K/2]

    def _set_angles(self, heads: int, pairs: int) -> None:
        assert isinstance(self.structure, Cyclic)
        self.order, self.heads = self.structure.order, heads
        deal = torch.arange(pairs) % (self.order // 2 + 1)
        swapped = torch.where(deal < 2, 1 - deal, deal)  # 1, 0, 2, 3, ...
        self.register_buffer("multiples", swapped, persistent=False)

    def unit(self) -> Tensor:
        return (self.multiples.double() * (2 * math.pi / self.order)).expand(self.heads, -1)

    def angle(self, positions: Tensor) -> Tensor:
        """2 pi (p m mod n) / n: the same numbers for p and p + n."""
        step = (positions[:, None, :, None] % self.order) * self.multiples % self.order
        return (step.double() * (2 * math.pi / self.order)).expand(-1, self.heads, -1, -1)


KINDS: dict[type[Structure], type[Interpretation]] = {Seq: Powers, Cyclic: Ring}
