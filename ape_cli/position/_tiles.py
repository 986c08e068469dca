"""Apply to each of many vectors its own operator, in shapes that do not depend on the operators.

This is meant for a GPU. The products are those of `_walk.py`. They are laid out for a device on which launches are
expensive and arithmetic is cheap. The vectors that share an operator are cut into tiles of `TILE` places, and the
last tile of an operator may have empty places. There are always T // TILE + P tiles, which is enough for any T
vectors and P operators. So a CUDA graph of a step can be replayed for every batch of its shape. Vectors without an
operator get the identity.

Shapes: T vectors for each head, K channels, H heads, P operators, n tiles of c places, and m copies of the vectors,
which have the same positions. A row holds the m copies of one vector, m * K numbers. The row of vector t and head h
has the index t * H + h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.core.rng import I64

TILE = 32  # places in a tile


def cut(which: I64, operators: int) -> tuple[I64, I64, I64]:
    """Cut vectors into tiles. which: int64 [T], the number of each vector's operator, out of P.

    Returns three arrays of int64: the vector at each place [n, c], -1 if the place is empty; the place of each vector
    [T], counted over all tiles; and the operator of each tile [n].
    """
    count = np.bincount(which, minlength=operators)
    tiles = -(-count // TILE)  # number of tiles of each operator
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
    """Tiles and their operators, on the device.

    Arguments: `vector`, `place` and `operator`, as `cut` returns them; `table`, all operators, [P, H, K, K].
    """

    def __init__(self, vector: Tensor, place: Tensor, operator: Tensor, table: Tensor) -> None:
        """Compute the rows at each place and gather the operator of each tile."""
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
        """Multiply every vector from the left by its operator. [T * H, m * K] -> the same"""
        out: Tensor = _Meeting.apply(rows, self._operators.to(rows.dtype), self)
        return out


class _Chosen(torch.autograd.Function):
    """The operator of each tile. [P, H, K, K] -> [n * H, K, K]

    The backward pass adds up the gradients of an operator's tiles by a matrix product, so in a fixed order.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, operator: Tensor, spread: Tensor) -> Tensor:
        """Gather the operators by tile.

        operator: int64 [n]; spread: [P, n], 1 where a tile has an operator and 0 elsewhere.
        """
        ctx.save_for_backward(spread)
        ctx.shape = table.shape
        return table.index_select(0, operator).flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of the table."""
        (spread,) = ctx.saved_tensors
        return (spread @ grad.reshape(spread.shape[1], -1)).view(ctx.shape), None, None


class _Meeting(torch.autograd.Function):
    """Multiply the rows by the operators of their tiles."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, operators: Tensor, stage: TileStage) -> Tensor:
        """Gather the rows into tiles, multiply them, and bring them back.

        [T * H, m * K], [n * H, K, K] -> [T * H, m * K]
        """
        channels = operators.shape[-1]
        here = rows.index_select(0, stage.take)
        met = torch.bmm(here.view(len(operators), -1, channels), operators.mT)
        ctx.stage = stage
        ctx.save_for_backward(here, operators)
        return met.view(here.shape).index_select(0, stage.place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the rows and of the operators."""
        here, operators = ctx.saved_tensors
        there = grad.index_select(0, ctx.stage.take) * ctx.stage.filled.to(grad.dtype)
        after, before = (x.view(len(operators), -1, operators.shape[-1]) for x in (there, here))
        back = torch.bmm(after, operators).view(there.shape).index_select(0, ctx.stage.place)
        return back, torch.bmm(after.mT, before), None
