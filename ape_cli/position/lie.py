"""LieRE: positions are rotations exp(x A + y B), with learned skew-symmetric A and B for each head.

Source: Ostmeier et al. 2024, arXiv:2406.10322: R(p) = exp(sum_i p_i A_i), with one A_i for each axis, and q' = R(p) q,
k' = R(p) k. `block` is the number of channels of each block of the generators, as in LieRE_8 and LieRE_64 of the
source. 0 means one block of all channels of a head.

The generators do not commute, so on a grid this is not a homomorphism: exp(A + B) is not exp(A) exp(B), and a score
depends on both places and not only on the path between them. `homomorphism` and `relative` are therefore not claimed.
At the start, entries of [x y] and [x] [y] differ by up to 1.5 on `grid(2)` and 1.4 on `grid(4)` (with blocks of 4
channels by 2.0 and 1.9), where 2 is the most for orthogonal matrices. They differ by 0.7 at (1, 0) and (0, 1). A common
shift of query and key moves scores by up to 6. In two cases the generators do commute, and all laws hold:
- on one axis, with p A for a single generator, which is learned RoPE in a learned basis (`orthogonal-seq`);
- with `block=2`, because all rotations of a plane commute. This is `mixed-rope` with another start.

Deviations: the layers share the generators, because one set of operators serves all layers here. Positions are steps,
where the source divides them by the size of the image, so generators start near the identity as those of
`orthogonal-tree` do, where the source draws their entries between 0 and 2 pi.
Rotations come before the scaling by 1/sqrt(K).

There is one exponential for each distinct position of a batch. `_grouped.py` applies it to the tokens that share it. It
is computed in float64, because rounding errors grow with the distance from the origin.

Shapes: B batch, H heads, N tokens, C axes, K channels of a head, b channels of a block, G blocks of all heads, so that
G = H K/b, P distinct positions. Angles are in radians.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import Context, FastScheme, Shape, Side, _grouped
from ape_cli.position._grouped import Products, Stage, groups, tiles
from ape_cli.position._operators import exponential, fixed_exponential, random_orthogonal, skew, skew_of, start_angles

_HALVINGS = 16  # on CUDA, for exponents whose row sums of absolute values are below 2^16


@dataclass(frozen=True)
class _State:
    """What a forward pass keeps for a set of positions."""

    table: Tensor  # [P, G, b, b], the operators of the distinct positions
    places: Tensor  # [P, C], these positions
    products: Products | None  # None if all rows share their positions: then the table has one operator for each token


class Lie(FastScheme):
    """Rotations whose generator is a linear function of the coordinates.

    Argument: `block`, the number of channels of each block, 0 for all channels of a head. Raises `UsageError` if it is
    odd or does not divide the channels of a head.
    """

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
        """Check the block, and draw a random basis for each generator, with start angles near the identity."""
        super().__init__(shape)
        axes, k = shape.structure.width, shape.head_dim
        self.block = k if block == 0 else block
        if self.block < 2 or self.block % 2 or k % self.block:
            allowed = f"0, or an even number that divides the {k} channels of a head"
            raise UsageError("bad block", got=block, allowed=allowed, fix="the source uses 8, and all channels")
        if axes == 1 or self.block == 2:  # the generators commute
            self.homomorphism, self.relative = "orthogonal", True
        count = shape.d_model // self.block
        basis = random_orthogonal((axes, count, self.block, self.block), shape.generator)
        angles = start_angles(axes, count, self.block // 2)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # A - A' is a generator: [C, G, b, b]

    def operators(self, places: Tensor) -> Tensor:
        """exp(sum_i p_i A_i) of each position. int64 or floating point [P, C] -> [P, G, b, b]"""
        with torch.autocast(self.free.device.type, enabled=False):
            exponent = torch.tensordot(places.double(), skew(self.free.double()), dims=1)
            found = fixed_exponential(exponent, _HALVINGS) if exponent.is_cuda else exponential(exponent)
            return found.to(self.free.dtype)

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The distinct positions, and the four tensors of a `Stage` in which all tokens take part.

        positions: int64 or floating point [B or 1, N] or [B or 1, N, C] on the CPU. The number of distinct positions is
        filled up to a power of two, so that batches of one shape have plans of few shapes. There is no plan if all rows
        share their positions.
        """
        if len(positions) == 1:
            return PositionPlan()
        places, which = _distinct(_coordinates(positions))
        places = nn.functional.pad(places, (0, 0, 0, (1 << (len(places) - 1).bit_length()) - len(places)))
        stage = Stage.of(which.numpy(), *tiles(which.numpy(), len(places)), self.free.shape[1])
        return PositionPlan(tensors=(places, stage.take, stage.place, stage.empty, stage.operator))

    def prepare(self, positions: Tensor, plan: PositionPlan | None, beside: _State | None) -> _State:
        """The operators of positions, int64 or floating point [B or 1, N] or [B or 1, N, C].

        Without a plan, positions that differ between rows are read back to the host from a GPU.
        """
        if len(positions) == 1:
            places = _coordinates(positions)
            return _State(self.operators(places), places, None)
        if plan:
            places, take, place, empty, operator = plan.tensors
            stage = Stage(take, place, empty, operator, ((len(operator), _grouped.TILE),))
            table = self.operators(places)
        else:
            places, which, table = self._table(_coordinates(positions), beside)
            tokens = torch.arange(which.size * self.free.shape[1])
            stage = Stage.of(which, *groups(which), self.free.shape[1]).of_some(tokens, positions.device)
        return _State(table, places, Products([stage], table))

    def _table(self, places: Tensor, beside: _State | None) -> tuple[Tensor, I64, Tensor]:
        """The distinct positions, the number of each position among them, and their operators.

        [T, C] -> [P, C], int64 [T], [P, G, b, b]. Operators of `beside` are taken from it, and come first.
        """
        if beside is None:
            distinct, which = _distinct(places.cpu())
            there = distinct.to(places.device)
            return there, which.numpy(), self.operators(there)
        count = len(beside.places)
        distinct, which = _distinct(torch.cat([beside.places, places]).cpu())
        new = torch.ones(len(distinct), dtype=torch.bool)
        new[which[:count]] = False
        number = torch.empty_like(new, dtype=torch.int64)
        number[which[:count]] = torch.arange(count)
        number[new] = torch.arange(count, count + int(new.sum()))
        added = distinct[new].to(places.device)
        table = torch.cat([beside.table, self.operators(added)]) if len(added) else beside.table
        return torch.cat([beside.places, added]), number[which[count:]].numpy(), table

    def rotate_in_frame(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The operator of each position applied to the vectors there. [B, H, N, K] -> the same"""
        state: _State = context.state
        blocks = x.unflatten(-1, (-1, self.block)).transpose(2, 3).flatten(1, 2)  # [B, G, N, b]
        if state.products is None:
            with torch.autocast(x.device.type, enabled=False):  # autocast would change the dtype
                rotated = state.table.to(x.dtype).transpose(0, 1) @ blocks.permute(1, 2, 3, 0)  # [G, N, b, B]
            rotated = rotated.permute(3, 0, 1, 2)
        else:
            rotated = state.products.of_tokens(blocks, len(x))
        return rotated.unflatten(1, (x.shape[1], -1)).transpose(2, 3).flatten(-2)


def _coordinates(positions: Tensor) -> Tensor:
    """The positions of all tokens, one below the other. [B or 1, N] or [B or 1, N, C] -> [T, C]"""
    return positions.reshape(positions.shape[0] * positions.shape[1], -1)


def _distinct(places: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ones of some positions, and the number of each position among them. [T, C] -> [P, C], int64 [T]"""
    which = torch.zeros(len(places), dtype=torch.int64)
    for coordinate in places.unbind(-1):  # one number for each position: faster than a search for distinct rows
        found, number = coordinate.unique(return_inverse=True)
        which = (which * len(found) + number).unique(return_inverse=True)[1]
    first = torch.empty(int(which.max()) + 1, dtype=torch.int64)
    first[which] = torch.arange(len(places))
    return places[first], which
