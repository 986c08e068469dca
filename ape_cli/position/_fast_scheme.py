"""The base class of schemes whose operators are worth some care: shared work, plans on the host, and a common frame.

The docstring of `ape_cli.position` describes the shape letters. L channels of a result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ape_cli.data.position_plan import Planner, PositionPlan, run_of
from ape_cli.position._context import Context
from ape_cli.position._scheme import Scheme, Side


class FastScheme(Scheme):
    """Base class of schemes whose operators are worth some care. Its methods change speed and not scores.

    The operator of a position is prepared once for a forward pass. What depends on the parameters alone is shared with
    other positions (`beside`), and what depends on the values of positions is planned on the host. The part of an
    operator that is the same at all positions, its frame F, can be taken into the projections of queries and keys.
    """

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """What has to be computed on the host, from the values of positions.

        positions: int64 [B or 1, N] or [B or 1, N, C], on the CPU. `beside`: the plan of other positions of the same
        forward pass, or None.
        """
        return PositionPlan()

    def prepare(self, positions: Tensor, plan: PositionPlan | None, beside: Any) -> Any:
        """The state of a context. positions: int64 [B or 1, N], or [B or 1, N, C]

        `plan`: of these positions, or None. `beside`: the state of other positions of the same forward pass, or None.
        """
        raise NotImplementedError

    def frame(self, context: Context) -> Tensor | None:
        """The frame F. -> [H, K, K], None for the identity

        With it, rotate(x) = rotate_in_frame(x F). An attention that takes F into its projections, once for all
        tokens, gives `bias` queries in the frame.
        """
        return None

    def rotate_in_frame(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """`rotate`, for vectors that are in the frame already. [B, H, N, K] -> the same"""
        raise NotImplementedError

    def context(
        self,
        positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        beside: Context | None = None,
        plan: PositionPlan | None = None,
    ) -> Context:
        """Prepare positions for the hooks (see `Scheme.context`), with the state of the operators.

        positions: int64 [B or 1, N], or [B or 1, N, C]. mask: bool [B, N]
        """

        def prepare(_: Context, __: Context) -> Any:
            """The state, with that of `beside` if there is one."""
            return self.prepare(positions, plan, beside.state if beside else None)

        context = super().context(positions, mask, causal, plan=plan)
        if torch.compiler.is_compiling():
            state = prepare(context, context)
            return replace(context, prepare=lambda *_: state)
        context = replace(context, prepare=prepare)
        context.state  # noqa: B018 # computed here, before the layers need it
        return context

    def rotate(self, x: Tensor, context: Context, side: Side) -> Tensor:
        """The operator of each position applied to the vectors there, up to the frame. [B, H, N, K] -> the same

        The result stays in the frame, which cancels in the scores.
        """
        frame = self.frame(context)
        return self.rotate_in_frame(x if frame is None else by_head(x, frame.to(x.dtype)), context, side)


def by_head(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each head's vectors by the head's own matrix. [B, H, N, K], [H, K, L] -> [B, H, N, L]

    `x @ matrices` would copy the matrices for each row of the batch. This is one batched product over the heads.
    """
    b, h, n, _ = x.shape
    product = torch.bmm(x.transpose(0, 1).reshape(h, b * n, x.shape[-1]), matrices)
    return product.view(h, b, n, matrices.shape[-1]).transpose(0, 1)


def planner(scheme: Scheme) -> Planner:
    """The function that plans positions for a scheme on the host, before a batch is sent to a GPU."""

    def plan(positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions, int64 [B or 1, N] or [B or 1, N, C] on the CPU, with the first of a shared run."""
        planned = scheme.plan(positions, beside) if isinstance(scheme, FastScheme) else PositionPlan()
        return replace(planned, first=run_of(positions))

    return plan
