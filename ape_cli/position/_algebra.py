"""Orthogonal operators for the paths of a structure: one homomorphism for every expression.

Source: Algebraic Positional Encodings, sections 3.1.2, 3.2.2, 3.3.1 and 3.4. Each head has its own operators. A path
x of the structure becomes an orthogonal operator [x] on the K channels of a head such that [x y] = [x] [y]. For `seq`
and `cyclic(n)` the operators are powers of one generator (`_powers.py`). For `tree(k)` they are products of k
generators (`_branches.py`). For products they are direct sums. A new structure needs a new interpretation, which
`interpret` in `orthogonal.py` looks up.

Shapes: B batch, H heads, N tokens, C factors of a product, K channels of a head (within a product: of a factor's
share).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan


class Interpretation(nn.Module, ABC):
    """Base class of the operators for the paths of one structure."""

    @abstractmethod
    def prepare(self, positions: Tensor, plan: PositionPlan | None = None, beside: Any = None) -> Any:
        """Compute what the layers of a forward pass share.

        positions: int64 [B or 1, N], or [B or 1, N, C] for a product.

        `plan`: of these positions, or None. `beside`: the result for other positions of the same forward pass, or
        None. The parts that depend on the parameters alone are taken from it.
        """

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """Compute on the host what depends on the values of positions (see `data/position_plan.py`).

        positions: int64 [B or 1, N] or [B or 1, N, C] on the CPU. `beside`: the plan of other positions of the same
        forward pass, or None.
        """
        return PositionPlan()

    def frame(self, state: Any) -> Tensor | None:
        """A basis F, common to all positions, in which the operators are simpler. -> [H, K, K], or None for I"""
        return None

    @abstractmethod
    def act_on(self, x: Tensor, state: Any) -> Tensor:
        """Apply the operator of each token's position, within the basis of `frame`. [B, H, N, K] -> the same

        The argument `x` is given in the basis (as x F), and the result is in the basis too. The map back from the
        basis, F' from the left, is not applied: it is common to all positions and cancels in the scores.
        """

    @abstractmethod
    def generators(self) -> Tensor:
        """The generators as matrices. -> [generator, H, K, K]. Raises `UsageError` for a product."""


class ProductInterpretation(Interpretation):
    """The operators of a product: each factor acts on its own share of the channels.

    Source: the paper, section 3.3.1, where A + B acts block by block.

    Arguments: `parts`, one for each simple factor; `shares`, the number of channels of each part.
    """

    def __init__(self, parts: list[Interpretation], shares: list[int]) -> None:
        """Store the parts and their shares of the channels."""
        super().__init__()
        self.parts, self.shares = nn.ModuleList(parts), shares

    def generators(self) -> Tensor:
        """Raises `UsageError`, because each factor has its own generators, [generator, H, K, K]."""
        raise UsageError("the factors of a product have generators of their own: ask each of `parts`")


class DirectSum(ProductInterpretation):
    """A product of factors of any kind, which are applied one after the other."""

    def prepare(
        self, positions: Tensor, plan: PositionPlan | None = None, beside: list[Any] | None = None
    ) -> list[Any]:
        """One state for each factor. positions: int64 [B or 1, N, C]"""
        plans = plan.parts if plan else [None] * len(self.parts)
        others = beside or [None] * len(self.parts)
        return [part.prepare(positions[..., i], plans[i], others[i]) for i, part in enumerate(self._each())]

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """A plan with one part for each factor. positions: int64 [B or 1, N, C] on the CPU"""
        others = beside.parts if beside else [None] * len(self.parts)
        return PositionPlan(parts=tuple(part.plan(positions[..., i], others[i]) for i, part in enumerate(self._each())))

    def frame(self, state: list[Any]) -> Tensor | None:
        """The factors' bases as the blocks of one matrix. -> [H, K, K], None for the identity"""
        return blocks([part.frame(s) for part, s in zip(self._each(), state, strict=True)], self.shares)

    def act_on(self, x: Tensor, state: list[Any]) -> Tensor:
        """Each factor's operators applied to its share of the channels. [B, H, N, K] -> the same"""
        split = zip(self._each(), x.split(self.shares, dim=-1), state, strict=True)
        return torch.cat([part.act_on(share, s) for part, share, s in split], dim=-1)

    def _each(self) -> list[Interpretation]:
        """The parts, with their type."""
        return [part for part in self.parts if isinstance(part, Interpretation)]


def blocks(parts: Sequence[Tensor | None], shares: list[int]) -> Tensor | None:
    """The block-diagonal matrix of the given matrices, with the identity in the place of None.

    [H, K_i, K_i] each -> [H, K, K], or None if all are None
    """
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    width, at, rows = sum(shares), 0, []
    for part, share in zip(parts, shares, strict=True):
        block = (
            torch.eye(share, dtype=some.dtype, device=some.device).expand(len(some), -1, -1) if part is None else part
        )
        rows.append(nn.functional.pad(block, (at, width - at - share)))
        at += share
    return torch.cat(rows, dim=1)
