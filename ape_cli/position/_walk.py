"""Many vectors, each to its own operators out of a few: grouped, so that no operator is copied for each vector.

A walk is a chain of stages. In a stage, vectors that share an operator stand side by side, head by head, and
meet it in one product of matrices; every stage has all the vectors of the one before it. Rows move by index
alone, and each has one place in a stage, so backward they are taken from where forward they were put.

Shapes: T vectors for each head, K channels, H heads, P operators; m copies of the vectors, which stand at the
same places of a structure (queries and keys; rows of a batch that share their positions); a row is one
vector's m copies, m * K numbers. The row of vector t and head h is t * H + h.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.streams import I64


class Table:
    """The operators, and their transposes: products of matrices are fastest where both stand as they are read."""

    def __init__(self, operators: Tensor) -> None:
        """[P, H, K, K]"""
        self.operators = operators
        self._cast: tuple[Tensor, Tensor] | None = None

    def of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Both without gradient, in a dtype. [P, H, K, K] each"""
        if self._cast is None or self._cast[0].dtype != dtype:
            found = self.operators.detach().to(dtype)
            self._cast = found, found.mT.contiguous()
        return self._cast


class Stage:
    """Which vectors meet which operator. A of them take part; places are operators by heads by vectors."""

    def __init__(self, vectors: I64, which: I64, heads: int) -> None:
        """`vectors` [A], ascending, meet the operators `which` [A] of a table; -1: none."""
        self.vectors, self.heads = vectors, heads
        order = np.argsort(which, kind="stable")
        used, count = np.unique(which, return_counts=True)
        self.sizes, self.used = (count * heads).tolist(), used.tolist()  # of blocks, in rows
        begin = np.repeat(np.cumsum(count) - count, count)
        first = begin * heads + np.arange(order.size) - begin  # the place of each one's first head
        self._place = np.empty((order.size, heads), dtype=np.int64)
        self._place[order] = first[:, None] + np.repeat(count, count)[:, None] * np.arange(heads)

    def places(self, vectors: I64) -> I64:
        """Where the rows of some of the vectors stand. [V] -> [V * H]"""
        return self._place[np.searchsorted(self.vectors, vectors)].ravel()

    def rows(self) -> I64:
        """The row at each place. [A * H]"""
        found = np.empty(self._place.size, dtype=np.int64)
        found[self._place] = self.vectors[:, None] * self.heads + np.arange(self.heads)
        return found

    def blocks(self, channels: int, *tensors: Tensor) -> Iterator[tuple[int, list[Tensor]]]:
        """Of each operator: its number and the vectors that meet it. [A * H, m * K] each -> [H, n * m, K] each"""
        parts = zip(*(x.split(self.sizes) for x in tensors), strict=True)
        for which, blocks in zip(self.used, parts, strict=True):
            yield which, [x.view(self.heads, -1, channels) for x in blocks]


class Walk:
    """Stages in the order in which they act, and how vectors get from one to the next."""

    def __init__(self, stages: Sequence[Stage], table: Table) -> None:
        """All T vectors take part in the last stage."""
        self.stages, self.table = stages, table
        self.rows = [self._there(stage.rows()) for stage in stages]
        self.place = self._there(stages[-1].places(stages[-1].vectors))  # in the last stage, of each row
        self.onward = [  # where what stands at each place stands in the next stage
            self._there(_inverse(before.places(before.vectors), after.places(before.vectors)))
            for before, after in pairwise(stages)
        ]

    def _there(self, index: I64) -> Tensor:
        return torch.from_numpy(index).to(self.table.operators.device, non_blocking=True)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows [T * H, m * K] -> the same, each vector multiplied from the left by its operators."""
        with torch.autocast(x.device.type, enabled=False):  # it would change the dtype on the way
            out: Tensor = _Walking.apply(x, self.table.operators, self)
            return out


def _inverse(at: I64, values: I64) -> I64:
    found = np.empty_like(values)
    found[at] = values
    return found


class _Walking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, operators: Tensor, walk: Walk) -> Tensor:
        k = operators.shape[-1]
        transposed = walk.table.of(x.dtype)[1].unbind(0)
        given, met = [], x
        for i, stage in enumerate(walk.stages):
            given.append(x.index_select(0, walk.rows[i]))
            if i:
                given[i].index_copy_(0, walk.onward[i - 1], met)
            met = torch.empty_like(given[i])
            for which, (before, after) in stage.blocks(k, given[i], met):
                if which < 0:
                    after.copy_(before)
                else:
                    torch.bmm(before, transposed[which], out=after)
        ctx.walk, ctx.channels = walk, k
        ctx.save_for_backward(*given)
        return met.index_select(0, walk.place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        walk, k = ctx.walk, ctx.channels
        operators = walk.table.of(grad.dtype)[0].unbind(0)
        found = torch.zeros_like(walk.table.of(grad.dtype)[0])
        out, there = grad, grad.index_select(0, walk.rows[-1])
        for i in reversed(range(len(walk.stages))):
            back = torch.empty_like(there)
            for which, (before, of_after, of_before) in walk.stages[i].blocks(k, ctx.saved_tensors[i], there, back):
                if which < 0:
                    of_before.copy_(of_after)
                else:
                    found[which].baddbmm_(of_after.mT, before)
                    torch.bmm(of_after, operators[which], out=of_before)
            if i == len(walk.stages) - 1:
                out = back.index_select(0, walk.place)
            else:
                out.index_copy_(0, walk.rows[i], back)
            if i:
                there = back.index_select(0, walk.onward[i - 1])
        return out, found.to(walk.table.operators.dtype), None
