"""Many vectors, each to its own operator, in shapes that do not depend on which: for a GPU.

The same products as in `_walk.py`, laid out for a device on which launches are dear and arithmetic is not. The vectors
that share an operator are cut into tiles of `TILE` places; the last tile of an operator may have empty places. There
are always T // TILE + P tiles, which is enough for any T vectors and P operators, so that a CUDA graph of a step can be
replayed for every batch of its shape. Vectors without an operator meet the identity.

Shapes: T vectors for each head, K channels, H heads, P operators, n tiles of c places; m copies of the vectors, which
stand at the same places of a structure. A row is one vector's m copies, m * K numbers; the row of vector t and head h
is t * H + h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.core.rng import I64

TILE = 32  # places


def cut(which: I64, operators: int) -> tuple[I64, I64, I64]:
    """Vectors into tiles: which of P operators each meets, int64 [T].

    Returns the vector at each place [n, c], -1 where it is empty; the place of each vector [T], counted over all tiles;
    and the operator of each tile [n].
    """
    count = np.bincount(which, minlength=operators)
    tiles = -(-count // TILE)  # of each operator
    before = np.cumsum(tiles) - tiles
    total = which.size // TILE + operators
    order = np.argsort(which, kind="stable")
    rank = np.empty_like(which)
    rank[order] = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)
    place = before[which] * TILE + rank
    vector = np.full(total * TILE, -1, dtype=np.int64)
    vector[place] = np.arange(which.size)
    operator = np.zeros(total, dtype=np.int64)
    operator[: tiles.sum()] = np.repeat(np.arange(operators), tiles)
    return vector.reshape(total, TILE), place, operator


class TileStage:
    """Tiles and their operators, on the device."""

    def __init__(self, vector: Tensor, place: Tensor, operator: Tensor, table: Tensor) -> None:
        """As `cut` gives them; `table`: all operators, [P, H, K, K]."""
        heads, each = table.shape[1], torch.arange(table.shape[1], device=table.device)
        rows = vector.clamp(min=0)[:, None, :] * heads + each[:, None]  # [n, H, c]
        self.take = rows.flatten()
        filled = (vector >= 0)[:, None, :].expand_as(rows)
        self.filled = filled.flatten()[:, None].to(table.dtype)
        tile, slot = place // TILE, place % TILE
        self.place = (((tile[:, None] * heads) + each) * TILE + slot[:, None]).flatten()
        spread = torch.arange(len(table), device=table.device)[:, None] == operator  # bool [P, n]
        self._operators = _Chosen.apply(table, operator, spread.to(table.dtype))  # [n * H, K, K]

    def __call__(self, rows: Tensor) -> Tensor:
        """Every vector multiplied from the left by its operator. [T * H, m * K] -> the same"""
        out: Tensor = _Meeting.apply(rows, self._operators.to(rows.dtype), self)
        return out


class _Chosen(torch.autograd.Function):
    """The operator of each tile; backward, those of an operator are added up by a product, in a fixed order."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, operator: Tensor, spread: Tensor) -> Tensor:
        ctx.save_for_backward(spread)
        ctx.shape = table.shape
        return table.index_select(0, operator).flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (spread,) = ctx.saved_tensors
        return (spread @ grad.reshape(spread.shape[1], -1)).view(ctx.shape), None, None


class _Meeting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, operators: Tensor, stage: TileStage) -> Tensor:
        channels = operators.shape[-1]
        here = rows.index_select(0, stage.take)
        met = torch.bmm(here.view(len(operators), -1, channels), operators.mT)
        ctx.stage = stage
        ctx.save_for_backward(here, operators)
        return met.view(here.shape).index_select(0, stage.place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        here, operators = ctx.saved_tensors
        there = grad.index_select(0, ctx.stage.take) * ctx.stage.filled.to(grad.dtype)
        after, before = (x.view(len(operators), -1, operators.shape[-1]) for x in (there, here))
        back = torch.bmm(after, operators).view(there.shape).index_select(0, ctx.stage.place)
        return back, torch.bmm(after.mT, before), None
