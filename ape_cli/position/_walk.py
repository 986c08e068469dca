"""Many vectors, each to its own operators out of a few: grouped, so that no operator is copied for each vector.

A walk is a chain of stages. In a stage, vectors that share an operator stand side by side; operators of about as
many vectors are padded to the same number, and meet theirs in one batched product. Every stage has all the vectors
of the one before it. Rows move by index alone, and each has one place in a stage, so backward they are taken
from where forward they were put.

Shapes: T vectors for each head, K channels, H heads, P operators; m copies of the vectors, which stand at the
same places of a structure (rows of a batch that share their positions); a row is one vector's m copies, m * K
numbers. The row of vector t and head h is t * H + h.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.core.rng import I64

_FULL = 0.75  # of the places that a group pads an operator to, at the least


class WalkTable:
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

    def there(self, index: I64) -> Tensor:
        """An index on the device of the operators."""
        return torch.from_numpy(np.ascontiguousarray(index)).to(self.operators.device, non_blocking=True)


class WalkStage:
    """Which vectors meet which operator. A of them take part; those that meet none have places at the end."""

    def __init__(self, vectors: I64, which: I64, table: WalkTable) -> None:
        """`vectors` [A], ascending, meet the operators `which` [A] of a table; -1: none."""
        self.vectors, heads = vectors, table.operators.shape[1]
        used, inverse, count = np.unique(which, return_inverse=True, return_counts=True)
        slot = np.empty_like(inverse)
        slot[np.argsort(inverse, kind="stable")] = np.arange(inverse.size) - np.repeat(np.cumsum(count) - count, count)
        first, size = np.empty_like(count), count.copy()  # of each operator: its first place, its places for a head
        self.size = 0  # places
        groups = _alike(np.flatnonzero(used >= 0), count)
        for members in groups:
            size[members] = count[members[0]]
            first[members] = self.size + np.arange(members.size) * heads * count[members[0]]
            self.size += members.size * heads * int(count[members[0]])
        first[used < 0] = self.size
        idle = int(count[0]) * heads if used[0] < 0 else 0
        self.operators = table.there(used[np.concatenate(groups)] if groups else used[:0])  # group by group
        self._met = [members.size * heads for members in groups]  # operators of each group, each head's own
        self._sizes = [met * int(count[members[0]]) for met, members in zip(self._met, groups, strict=True)]
        self._sizes.append(idle)
        self.size += idle
        self._place = (first[inverse] + slot)[:, None] + size[inverse][:, None] * np.arange(heads)
        self._cast: dict[tuple[torch.dtype, bool], tuple[Tensor, ...]] = {}

    def places(self, vectors: I64) -> I64:
        """Where the rows of some of the vectors stand. [V] -> [V * H]"""
        return self._place[np.searchsorted(self.vectors, vectors)].ravel()

    def at_places(self, values: I64) -> I64:
        """What stands at each place, out of values of all rows that take part; 0 where nothing does."""
        found = np.zeros(self.size, dtype=np.int64)
        found[self._place.ravel()] = values
        return found

    def rows(self) -> I64:
        """The rows that take part. -> [A * H]"""
        return _rows(self.vectors, self._place.shape[1])

    def empty(self) -> I64:
        return np.flatnonzero(self.at_places(np.ones(self._place.size, dtype=np.int64)) == 0)

    def of(self, table: WalkTable, dtype: torch.dtype, transposed: bool) -> tuple[Tensor, ...]:
        """Each group's operators. -> [O * H, K, K] each"""
        key = dtype, transposed
        if key not in self._cast:
            self._cast[key] = self.by_group(table.of(dtype)[transposed].index_select(0, self.operators))
        return self._cast[key]

    def by_group(self, operators: Tensor) -> tuple[Tensor, ...]:
        """Operators in the order of this stage, cut into its groups. [O, H, K, K] -> [O * H, K, K] each"""
        return operators.flatten(0, 1).split(self._met)

    def in_groups(self, rows: Tensor, channels: int) -> tuple[list[Tensor], Tensor]:
        """Each group's, and the rows that meet nothing. [., m * K] -> [O * H, n * m, K] each, [., m * K]"""
        *parts, idle = rows.split(self._sizes)
        return [part.view(met, -1, channels) for part, met in zip(parts, self._met, strict=True)], idle


def _rows(vectors: I64, heads: int) -> I64:
    rows: I64 = (vectors[:, None] * heads + np.arange(heads)).ravel()
    return rows


def _alike(which: I64, count: I64) -> list[I64]:
    """Operators of about the same count together, those with the most vectors first."""
    order = which[np.argsort(-count[which], kind="stable")]
    groups, begin = [], 0
    while begin < order.size:
        end = begin + int((count[order[begin:]] >= _FULL * count[order[begin]]).sum())
        groups.append(order[begin:end])
        begin = end
    return groups


class Walk:
    """Stages in the order in which they act, and how vectors get from one to the next."""

    def __init__(self, stages: Sequence[WalkStage], table: WalkTable) -> None:
        """All T vectors take part in the last stage."""
        self.stages, self.table = stages, table
        there = table.there
        self.take = [there(stage.at_places(stage.rows())) for stage in stages]  # the row at each place
        self.empty = [there(stage.empty()) for stage in stages]
        self.rows = [there(stage.rows()) for stage in stages]
        self.place = [there(stage.places(stage.vectors)) for stage in stages]  # of each of `rows`
        onward = [after.places(stage.vectors) for stage, after in pairwise(stages)]
        self.onward = [there(places) for places in onward]  # of each of `rows`, its place in the next stage
        self.before = [there(stage.at_places(p)) for stage, p in zip(stages, onward, strict=False)]  # of each place

    def __call__(self, x: Tensor) -> Tensor:
        """Rows [T * H, m * K] -> the same, each vector multiplied from the left by its operators."""
        with torch.autocast(x.device.type, enabled=False):  # it would change the dtype on the way
            out: Tensor = _Walking.apply(x, self.table.operators, self)
            return out


class _Walking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, operators: Tensor, walk: Walk) -> Tensor:
        channels, given, met = operators.shape[-1], [], x
        for i, stage in enumerate(walk.stages):
            here = x.index_select(0, walk.take[i])
            if i:
                here.index_copy_(0, walk.onward[i - 1], met.index_select(0, walk.place[i - 1]))
            met = torch.empty_like(here)
            (vectors, idle), (out, idle_out) = stage.in_groups(here, channels), stage.in_groups(met, channels)
            for v, w, o in zip(vectors, stage.of(walk.table, x.dtype, True), out, strict=True):
                torch.bmm(v, w, out=o)
            idle_out.copy_(idle)
            given.append(here)
        ctx.walk = walk
        ctx.save_for_backward(*given)
        return met.index_select(0, walk.place[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        walk, out = ctx.walk, grad
        found = torch.zeros_like(walk.table.of(grad.dtype)[0])
        channels, last = found.shape[-1], len(walk.stages) - 1
        there = grad.index_select(0, walk.take[-1])
        for i in range(last, -1, -1):
            stage, here = walk.stages[i], ctx.saved_tensors[i]
            there.index_fill_(0, walk.empty[i], 0.0)
            back = torch.empty_like(there)
            (after, idle), (before, _) = stage.in_groups(there, channels), stage.in_groups(here, channels)
            out_of, back_idle = stage.in_groups(back, channels)
            of_operators = found.new_empty(stage.operators.numel(), *found.shape[1:])
            operators = stage.of(walk.table, grad.dtype, False), stage.by_group(of_operators)
            for g, v, o, w, of_w in zip(after, before, out_of, *operators, strict=True):
                torch.bmm(g.mT, v, out=of_w)
                torch.bmm(g, w, out=o)
            found.index_add_(0, stage.operators, of_operators)
            back_idle.copy_(idle)
            if i == last:
                out = back.index_select(0, walk.place[i])
            else:
                out.index_copy_(0, walk.rows[i], back.index_select(0, walk.place[i]))
            if i:
                there = back.index_select(0, walk.before[i - 1])
        return out, found.to(walk.table.operators.dtype), None
