"""From a structure to orthogonal operators: one homomorphism for every expression.

Source: Algebraic Positional Encodings, sections 3.1.2, 3.2.2, 3.3.1 and 3.4. A path x of the structure
becomes an orthogonal operator [x] on the K channels of a head, one for each head, such that
[x y] = [x] [y]: powers of one generator for `seq` and `cyclic(n)` (`_powers.py`), products of k
generators for `tree(k)` (`_branches.py`), the direct sum for products. A new structure is a new
interpretation here; no scheme changes.

Shapes: B batch, H heads, N tokens, K channels of a head (of a factor's share, within a product).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.data.position_plan import PositionPlan
from ape_cli.structure import Structure


class Interpretation(nn.Module, ABC):
    """Operators for the paths of one structure."""

    @abstractmethod
    def prepare(self, positions: Tensor, beside: Any = None) -> Any:
        """What the layers share. int64 [B or 1, N], or [B or 1, N, C] for a product.

        `beside`: of other positions in the same forward pass; what follows from the parameters alone is theirs too.
        """

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """What has to be worked out on the host (`_plan.py`). int64 on the CPU, as for `prepare`. `beside`: the plan of
        other positions of the same forward pass."""
        return PositionPlan()

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, beside: Any) -> Any:
        """`prepare`, from a plan."""
        return self.prepare(positions, beside)

    def frame(self, state: Any) -> Tensor | None:
        """A basis F in which all positions act more simply, whatever they are. -> [H, K, K], None for the identity"""
        return None

    @abstractmethod
    def turn(self, x: Tensor, state: Any) -> Tensor:
        """[p] x for each token's position p, where `x` is given in the basis, x F, and so is the result; the F'
        from the left that brings it back is common to all positions, and cancels in scores. [B, H, N, K] -> the same"""

    @abstractmethod
    def generators(self) -> Tensor:
        """The generators as matrices. -> [generator, H, K, K]"""


class ProductInterpretation(Interpretation):
    """A product: each factor acts on its own share of the channels (paper, section 3.3.1: A + B block by block)."""

    def __init__(self, parts: list[Interpretation], shares: list[int]) -> None:
        super().__init__()
        self.parts, self.shares = nn.ModuleList(parts), shares

    def generators(self) -> Tensor:
        raise UsageError(
            "the factors of a product have generators of their own", got="a product", fix="ask each of its `parts`"
        )


class DirectSum(ProductInterpretation):
    """Factors of any kind, one after the other."""

    def prepare(self, positions: Tensor, beside: list[Any] | None = None) -> list[Any]:
        given = beside or [None] * len(self.parts)
        return [part.prepare(positions[..., i], given[i]) for i, part in enumerate(self._each())]

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        given = beside.parts if beside else [None] * len(self.parts)
        return PositionPlan(parts=tuple(part.plan(positions[..., i], given[i]) for i, part in enumerate(self._each())))

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, beside: list[Any] | None) -> list[Any]:
        given = beside or [None] * len(self.parts)
        each = enumerate(self._each())
        return [part.prepare_planned(positions[..., i], plan.parts[i], given[i]) for i, part in each]

    def frame(self, state: list[Any]) -> Tensor | None:
        return blocks([part.frame(s) for part, s in zip(self._each(), state, strict=True)], self.shares)

    def turn(self, x: Tensor, state: list[Any]) -> Tensor:
        split = zip(self._each(), x.split(self.shares, dim=-1), state, strict=True)
        return torch.cat([part.turn(share, s) for part, share, s in split], dim=-1)

    def _each(self) -> list[Interpretation]:
        return [part for part in self.parts if isinstance(part, Interpretation)]


def blocks(parts: Sequence[Tensor | None], shares: list[int]) -> Tensor | None:
    """Matrices as the blocks of one, the identity for None. [H, K_i, K_i] each -> [H, K, K], None if all are"""
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


def interpret(structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> Interpretation:
    """The operators of a structure on `channels` of each head, an even number.

    The factors of a product share the channels evenly, in pairs; what is left over goes to the first.
    Raises `UsageError` where there is no pair for each.
    """
    from ape_cli.position import _branches, _powers

    simple = structure.simple
    if len(simple) == 1:
        kinds = _powers.KINDS | _branches.KINDS
        return kinds[type(simple[0])](simple[0], channels, heads, generator)
    pairs, over = divmod(channels // 2, len(simple))
    if not pairs:
        raise UsageError(
            f"a head is too narrow for {structure.expression}",
            got=f"{channels} channels a head",
            allowed=f"at least {2 * len(simple)}: a pair for each of {len(simple)} factors",
            fix="a larger d_model or fewer heads",
        )
    shares = [2 * (pairs + (i < over)) for i in range(len(simple))]
    parts = [interpret(s, k, heads, generator) for s, k in zip(simple, shares, strict=True)]
    joint = all(isinstance(part, _powers.Powers) for part in parts)
    return (_powers.Joint if joint else DirectSum)(parts, shares)
