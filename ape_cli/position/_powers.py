r"""Operators of `seq` and `cyclic(n)`: position p is the p-th power of one orthogonal matrix for each head.

Source: Algebraic Positional Encodings, sections 3.1, 3.4.2 and 4.2, appendix A.

$W = \exp(S)$ with $S$ skew-symmetric is stored in spectral form (appendix A): $S = Q T Q^\top$ with
$Q = \exp(A - A^\top)$ and angles $t$, so $W^p = Q R(p t) Q^\top$ with $R$ a rotation of channel pairs. This is exact
for any $p$ and needs no repeated multiplication. $Q$ is the basis of all positions. The $Q$ on the right can be
absorbed by the projections of queries and keys. The $Q$ on the left is common to all positions and is not applied.

On `seq` the angles are learned. They start near the identity, or at RoPE's frequencies with $Q = I$. On `cyclic(n)`
they are fixed multiples of $2\pi/n$, so that $W^n = I$. The multiples $1, 0, 2, 3, … \lfloor n/2 \rfloor$ are assigned
in turn; with at least $\lfloor n/2 \rfloor + 1$ pairs they are all characters of the group. The multiple 0 keeps
channels that match content at any place. The product of $p$ and the multiple is reduced modulo $n$ as an integer, so
the period is exact. A ring has no place outside: SOS, the empty path, has the same operator as the last place, $n$.

Shapes: B batch, H heads, N tokens, K channels of a head. Angles are in radians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.data.position_plan import PositionPlan
from ape_cli.position._context import reads_values
from ape_cli.position._operators import (
    ROPE_BASE,
    DirectSum,
    Interpretation,
    blocks,
    exponential,
    skew,
    skew_of,
    start_angles,
)
from ape_cli.position._rotation import Rotations, circle, frequencies, rotate_pairs, wide
from ape_cli.structure import Cyclic, Structure


@dataclass(frozen=True)
class Rotated:
    """The operators of some positions: rotations of channel pairs in a basis."""

    basis: Tensor | None  # Q [H, K, K], None for the identity
    rotations: Rotations  # by the angles p t [B or 1, H, N, K/2]

    def __call__(self, x: Tensor) -> Tensor:
        """R(p t) x. [B, H, N, K] -> the same"""
        return rotate_pairs(x, self.rotations)


class Powers(Interpretation):
    """Operators of `seq`: learned angles and a learned basis."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        """Set the angles and draw a random basis."""
        super().__init__()
        self.structure = structure
        self._set_angles(heads, channels // 2)
        free = torch.randn(heads, channels, channels, generator=generator)
        # A: [H, K, K]. A single pair of channels has none, because rotations of a plane commute with any Q.
        self.basis = nn.Parameter(free * channels**-0.5) if channels > 2 else None

    def _set_angles(self, heads: int, pairs: int) -> None:
        """Create the angles of one step."""
        self.angles = nn.Parameter(start_angles(1, heads, pairs)[0].float())  # [H, K/2]

    @torch.no_grad()
    def start_as_rope(self) -> None:
        """Set the angles to RoPE's frequencies, and Q to the identity. All heads are alike."""
        self.angles.copy_(frequencies(2 * self.angles.shape[-1], ROPE_BASE))
        if self.basis is not None:
            self.basis.zero_()

    def unit(self) -> Tensor:
        """The angles t of one step. -> float64 [H, K/2]"""
        return self.angles.double()

    def angle(self, positions: Tensor) -> Tensor:
        """The angles p t of positions p. int64 [B or 1, N] -> float64 [B or 1, H, N, K/2]"""
        return positions[:, None, :, None] * self.unit()[:, None, :]

    def generators(self) -> Tensor:
        """W of each head, for the single generator. -> [1, H, K, K]"""
        angles, q = self.unit(), self.planes()
        q = torch.eye(2, dtype=angles.dtype).expand(len(angles), 2, 2) if q is None else q
        return torch.linalg.matrix_exp(skew_of(angles.to(q.dtype), q))[None]

    def planes(self) -> Tensor | None:
        """Q, whose columns span the planes of rotation. -> float32 or wider [H, K, K], None for the identity"""
        return None if self.basis is None else exponential(skew(wide(self.basis)))

    def rotations(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The angles p t, and the cosine and sine of each.

        int64 [B or 1, N] -> float64 [B or 1, H, N, K/2], [B or 1, H, N, K/2, 2]

        If each row has positions of its own, few of them are distinct, and each of these is computed only once.
        """
        if positions.shape[0] == 1 or not reads_values(positions):
            angle = self.angle(positions)
            return angle, circle(angle)
        distinct, which = torch.unique(positions, return_inverse=True)
        table = self.angle(distinct[None])[0].transpose(0, 1)  # [U, H, K/2]
        angle, value = (x.index_select(0, which.flatten()).unflatten(0, which.shape) for x in (table, circle(table)))
        return angle.transpose(1, 2), value.transpose(1, 2)

    def prepare(
        self, positions: Tensor, plan: PositionPlan | None = None, shared_with: Rotated | None = None
    ) -> Rotated:
        """Q and the rotations of positions, int64 [B or 1, N]. Q is that of `shared_with`, if it is given."""
        return Rotated(shared_with.basis if shared_with else self.planes(), Rotations(*self.rotations(positions)))


class Joint(DirectSum):
    """A product whose factors are all `seq` or `cyclic(n)`: a single rotation serves all of them."""

    def prepare(self, positions: Tensor, plan: PositionPlan | None = None, shared_with: Any = None) -> Rotated:
        """The block-diagonal Q and the rotations of positions. positions: int64 [B or 1, N, C], for C factors"""
        parts = [part for part in self.parts if isinstance(part, Powers)]
        rotations = (part.rotations(positions[..., i]) for i, part in enumerate(parts))
        angle, value = (torch.cat(x, dim=3) for x in zip(*rotations, strict=True))
        basis = shared_with.basis if shared_with else blocks([part.planes() for part in parts], self.shares)
        return Rotated(basis, Rotations(angle, value))


class Ring(Powers):
    """Operators of `cyclic(n)`: angles that are fixed multiples of 2 pi / n, and a learned basis."""

    def start_as_rope(self) -> None:
        """Nothing changes: the angles of a ring are fixed."""

    def _set_angles(self, heads: int, pairs: int) -> None:
        """Keep the sizes. The angles are computed from them."""
        assert isinstance(self.structure, Cyclic)
        self.order, self.heads, self.pairs = self.structure.order, heads, pairs

    def multiples(self, device: torch.device | None) -> Tensor:
        """The multiples of 2 pi / n, dealt out to the pairs: 1, 0, 2, 3, … -> int64 [K/2]"""
        deal = torch.arange(self.pairs, device=device) % (self.order // 2 + 1)
        return torch.where(deal < 2, 1 - deal, deal)

    def unit(self) -> Tensor:
        """The angles t of one step, m 2 pi / n with m the multiples. -> float64 [H, K/2]"""
        multiples = self.multiples(None if self.basis is None else self.basis.device)
        return (multiples.double() * (2 * math.pi / self.order)).expand(self.heads, -1)

    def angle(self, positions: Tensor) -> Tensor:
        """The angles 2 pi (p m mod n) / n, exactly the same for p and p + n.

        int64 [B or 1, N] -> float64 [B or 1, H, N, K/2]
        """
        step = (positions[:, None, :, None] % self.order) * self.multiples(positions.device) % self.order
        return (step.double() * (2 * math.pi / self.order)).expand(-1, self.heads, -1, -1)
