"""The base class of schemes whose operators are worth some care.

It adds methods to `Scheme` that only improve speed: work that the layers share, plans on the host, and a basis that
projections take in. L is the number of channels of a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ape_cli.core import renamed
from ape_cli.data.position_plan import Planner, PositionPlan, run_of
from ape_cli.position._context import Context
from ape_cli.position._scheme import Scheme, Side


class FastScheme(Scheme):
    """A scheme with methods that change speed and not scores.

    The operators of positions are prepared once for a forward pass. What depends on the parameters alone is shared with
    other positions (`shared_with`), and what depends on the values of positions is planned on the host. The part of an
    operator that is the same at all positions, its basis F, can be taken into the projections of queries and keys.
    """

    def __init_subclass__(cls) -> None:
        """Accept the old names of methods."""
        super().__init_subclass__()
        renamed.members(cls, {"frame": "basis", "rotate_in_frame": "rotate_in_basis"})

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """What has to be computed on the host, from the values of positions.

        positions: int64 [B or 1, N] or [B or 1, N, C], on the CPU. `shared_with`: the plan of other positions of the
        same forward pass, or None.
        """
        return PositionPlan()

    def prepare(self, positions: Tensor, plan: PositionPlan | None, shared_with: Any) -> Any:
        """The state of a context. positions: int64 [B or 1, N], or [B or 1, N, C]

        `plan`: of these positions, or None. `shared_with`: the state of other positions of the same forward pass, or
        None.
        """
        raise NotImplementedError

    def basis(self, context: Context) -> Tensor | None:
        """The basis F. -> [H, K, K], None for the identity

        With it, rotate(x) = rotate_in_basis(x F). An attention that takes F into its projections, once for all
        tokens, gives `bias` queries in the basis.
        """
        return None

    def rotate_in_basis(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """`rotate`, for vectors that are in the basis already. [B, H, N, K] -> the same"""
        raise NotImplementedError

    def _prepared(self, context: Context, shared_with: Context | None) -> Context:
        positions, plan = context.positions, context.plan  # `prepare` must not refer to its own context

        def prepare(*_: Context) -> Any:
            return self.prepare(positions, plan, shared_with.state if shared_with else None)

        if torch.compiler.is_compiling():
            state = prepare()
            return replace(context, prepare=lambda *_: state)
        context = replace(context, prepare=prepare)
        context.state  # noqa: B018 # computed here, before the layers need it
        return context

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The operator of each position applied to the vectors there, up to the basis. [B, H, N, K] -> the same

        The result stays in the basis, which cancels in the scores.
        """
        basis = self.basis(context)
        return self.rotate_in_basis(x if basis is None else by_head(x, basis.to(x.dtype)), context, side)


def by_head(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each head's vectors by the head's own matrix. [B, H, N, K], [H, K, L] -> [B, H, N, L]

    `x @ matrices` would copy the matrices for each row of the batch. This is one batched product over the heads.
    """
    b, h, n, _ = x.shape
    product = torch.bmm(x.transpose(0, 1).reshape(h, b * n, x.shape[-1]), matrices)
    return product.view(h, b, n, matrices.shape[-1]).transpose(0, 1)


def planner(scheme: Scheme) -> Planner:
    """The function that plans positions for a scheme on the host, before a batch is sent to a GPU."""

    def plan(positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU, with the first of a shared run."""
        planned = scheme.plan(positions, shared_with) if isinstance(scheme, FastScheme) else PositionPlan()
        return replace(planned, first=run_of(positions))

    return plan
