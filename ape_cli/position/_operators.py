r"""Orthogonal operators for the paths of a structure: a homomorphism for every expression.

Source: Algebraic Positional Encodings, sections 3.1.2, 3.2.2, 3.3.1, 3.4 and 4.2, appendix A.

A path $x$ of the structure becomes an orthogonal operator $[x]$ on the $K$ channels of a head such that
$[x y] = [x] [y]$. For `seq` and `cyclic(n)` the operators are powers of a single generator (`_powers.py`), for
`tree(k)` products of $k$ generators (`_branches.py`), and for products direct sums. Each head has its own operators. A
new structure needs a new interpretation, which `interpret` in `orthogonal.py` looks up.

A generator is the exponential of a skew-symmetric matrix, $W = \exp(S)$. Every such $S$ is $Q T Q^\top$ with $Q$
orthogonal and $T$ made of $2 × 2$ blocks with entries $±t$ off the diagonal, where the $t$ are the rotation angles of
$W$. A skew-symmetric matrix with given angles is therefore known in closed form (appendix A.2), and $W^p$ rotates each
plane by $p t$. Generators start near the identity, or as the rotations of RoPE. Angles are in radians.

Shapes: B batch, H heads, N tokens, C factors of a product, G generators, K channels of a head (within a product: of a
factor's share).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position._context import reads_values

ROPE_BASE = 10_000.0  # of RoPE's frequencies
_HALVINGS = 16  # number of halvings where it cannot depend on values


class Operators(Protocol):
    """The operators of some positions, which the layers of a forward pass share."""

    @property
    def basis(self) -> Tensor | None:
        """A basis F, common to all positions, in which the operators are simpler. -> [H, K, K], or None for I"""

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the operator of each token's position, within the basis. [B, H, N, K] -> the same

        The argument `x` is given in the basis (as x F), and the result is in the basis too. The map back from the
        basis, F' from the left, is not applied: it is common to all positions and cancels in the scores.
        """


class Interpretation(nn.Module, ABC):
    """Base class of the operators for the paths of one structure."""

    @abstractmethod
    def prepare(self, positions: Tensor, plan: PositionPlan | None = None, shared_with: Any = None) -> Operators:
        """The operators of positions, int64 [B or 1, N], or [B or 1, N, C] for a product.

        `plan`: of these positions, or None. `shared_with`: the result for other positions of the same forward pass, or
        None. The parts that depend on the parameters alone are taken from it.
        """

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """Compute on the host what depends on the values of positions (see `data/position_plan.py`).

        positions: int64 [B or 1, N] or [B or 1, N, C] on the CPU. `shared_with`: the plan of other positions of the
        same forward pass, or None.
        """
        return PositionPlan()

    @abstractmethod
    def generators(self) -> Tensor:
        """The generators as matrices. -> [generator, H, K, K]. Raises `UsageError` for a product."""

    @abstractmethod
    def start_as_rope(self) -> None:
        """Set each generator to the rotation of the channel pairs (2i, 2i+1) by RoPE's frequencies."""


@dataclass(frozen=True)
class Blocks:
    """The operators of all factors of a product, each on its share of the channels."""

    factors: list[Operators]
    shares: list[int]

    @property
    def basis(self) -> Tensor | None:
        """The factors' bases as the blocks of one matrix. -> [H, K, K], None for the identity"""
        return blocks([factor.basis for factor in self.factors], self.shares)

    def __call__(self, x: Tensor) -> Tensor:
        """Each factor's operators applied to its share of the channels. [B, H, N, K] -> the same"""
        split = zip(self.factors, x.split(self.shares, dim=-1), strict=True)
        return torch.cat([factor(share) for factor, share in split], dim=-1)


class DirectSum(Interpretation):
    """The operators of a product: each factor acts on its own share of the channels, one after the other.

    Source: the paper, section 3.3.1, where A + B acts block by block.

    Arguments: `parts`, one for each simple factor; `shares`, the number of channels of each part.
    """

    def __init__(self, parts: list[Interpretation], shares: list[int]) -> None:
        """Store the parts and their shares of the channels."""
        super().__init__()
        self.parts, self.shares = nn.ModuleList(parts), shares

    def factors(self) -> list[Interpretation]:
        """The parts, with their type."""
        return [part for part in self.parts if isinstance(part, Interpretation)]

    def generators(self) -> Tensor:
        """Raises `UsageError`, because each factor has its own generators, [generator, H, K, K]."""
        raise UsageError("the factors of a product have generators of their own: ask each of `parts`")

    def start_as_rope(self) -> None:
        """Set the generators of each factor, by the frequencies of its share of the channels."""
        for part in self.factors():
            part.start_as_rope()

    def prepare(self, positions: Tensor, plan: PositionPlan | None = None, shared_with: Any = None) -> Operators:
        """The operators of each factor. positions: int64 [B or 1, N, C]"""
        plans = plan.parts if plan else [None] * len(self.parts)
        others = shared_with.factors if shared_with else [None] * len(self.parts)
        factors = [part.prepare(positions[..., i], plans[i], others[i]) for i, part in enumerate(self.factors())]
        return Blocks(factors, self.shares)

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """A plan with one part for each factor. positions: int64 [B or 1, N, C] on the CPU"""
        others = shared_with.parts if shared_with else [None] * len(self.parts)
        parts = (part.plan(positions[..., i], others[i]) for i, part in enumerate(self.factors()))
        return PositionPlan(parts=tuple(parts))


def blocks(parts: Sequence[Tensor | None], shares: list[int]) -> Tensor | None:
    """The block-diagonal matrix of the given matrices, with the identity in the place of None.

    [H, K_i, K_i] each -> [H, K, K], or None if all are None
    """
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    width, before, rows = sum(shares), 0, []
    for part, share in zip(parts, shares, strict=True):
        identity = torch.eye(share, dtype=some.dtype, device=some.device).expand(len(some), -1, -1)
        rows.append(nn.functional.pad(identity if part is None else part, (before, width - before - share)))
        before += share
    return torch.cat(rows, dim=1)


def start_angles(generators: int, heads: int, pairs: int) -> Tensor:
    """Angles near the identity: many small ones, progressively fewer large ones, and no two alike.

    -> float64 [G, H, K/2]

    They are quantiles of a distribution whose density falls with the angle. They are dealt out in turn, so each
    generator of each head has its own.
    """
    count = generators * heads * pairs
    quantile = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    angle = math.pi * quantile**3  # half of the angles are below pi/8; the density of an angle t falls as t^(-2/3)
    return angle.view(pairs, generators, heads).permute(1, 2, 0).contiguous()


def random_orthogonal(shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
    """Haar-distributed orthogonal matrices. -> float64, of the given shape [..., K, K]"""
    q, r = torch.linalg.qr(torch.randn(shape, generator=generator, dtype=torch.float64))
    return q * r.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]


def skew_of(angles: Tensor, basis: Tensor) -> Tensor:
    """The skew-symmetric matrix Q T Q' with these angles in this basis. [..., K/2], [..., K, K] -> [..., K, K]"""
    pairs = angles.shape[-1]
    block = angles.new_zeros(*angles.shape[:-1], 2 * pairs, 2 * pairs)
    even = torch.arange(0, 2 * pairs, 2, device=angles.device)
    block[..., even + 1, even] = angles
    block[..., even, even + 1] = -angles
    return basis @ block @ basis.mT


def exponential(s: Tensor) -> Tensor:
    """The matrix exponential of skew-symmetric matrices, which is orthogonal.

    float32 or float64 [..., K, K] -> the same

    It is a Taylor polynomial of s / 2^j, evaluated in powers of the third power (Paterson and Stockmeyer 1973) and
    then squared j times. `torch.linalg.matrix_exp` gives the same values, but its gradient is the exponential of
    matrices twice as large: forward and backward together take 3 to 5 times as long, and the gradient is no better.

    Autocast does not round its products. On CUDA and in a compiled function it is computed in float64, and j is fixed,
    because a j that depends on the matrices would have to be read. A matrix whose row sums of absolute values reach
    2^16 then gives NaN.
    """
    with torch.autocast(s.device.type, enabled=False):
        if not reads_values(s):
            return fixed_exponential(s.double()).to(s.dtype)
        norm = float(s.detach().abs().sum(-1).amax()) if s.numel() else 0.0
        halvings = max(0, math.frexp(norm)[1]) if math.isfinite(norm) else 0  # so that the scaled norm is below 1
        return _taylor(s, halvings)


def fixed_exponential(s: Tensor) -> Tensor:
    """`exponential` with a fixed number of squarings, and NaN if that is too few. float64 [..., K, K] -> the same"""
    norm = s.detach().abs().sum(-1).amax()
    valid = torch.ones_like(norm).masked_fill(~(norm < 2.0**_HALVINGS), math.nan)  # made on the device, not sent there
    return _taylor(s, _HALVINGS) * valid


def exact(x: Tensor) -> Tensor:
    """The same values in the precision in which operators are made: float64 on CUDA, else float32 or wider.

    [...] -> the same. Products of operators that are made in 16 bits do not stay orthogonal. On CUDA a product of
    float32 matrices may be rounded to TF32.
    """
    return x.double() if x.is_cuda else x.to(torch.promote_types(x.dtype, torch.float32))


def _taylor(s: Tensor, halvings: int) -> Tensor:
    """The exponential by a Taylor polynomial of s / 2^halvings and `halvings` squarings. [..., K, K] -> the same"""
    last = 9 if s.dtype == torch.float32 else 15  # the remainder is below 1/12! and 1/18! respectively
    x = s * 2.0**-halvings
    identity = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
    x2 = x @ x
    x3 = x2 @ x

    def three_terms(i: int) -> Tensor:
        """The terms of the degrees i, i + 1 and i + 2, divided by x^i."""
        a, b, c = (1.0 / math.factorial(j) for j in (i, i + 1, i + 2))
        return a * identity + b * x + c * x2

    total = three_terms(last)
    for i in range(last - 3, -1, -3):
        total = total @ x3 + three_terms(i)
    for _ in range(halvings):
        total = total @ total
    return total


def combined(free: Tensor, places: Tensor) -> Tensor:
    """The sum of generators A_i - A_i', each times its coordinate of a place.

    [C, G, K, K], int64 or floating point [P, C] -> float64 [P, G, K, K]
    """
    return torch.tensordot(places.double(), skew(free.double()), dims=1)


def skew(free: Tensor) -> Tensor:
    """The skew-symmetric matrix A - A' of a free square matrix A. [..., K, K] -> the same"""
    return free - free.mT
