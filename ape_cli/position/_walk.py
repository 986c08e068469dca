"""Apply to each of many vectors its own operators, out of a few, without a copy of an operator for each vector.

A walk is a chain of stages. In a stage, the vectors that share an operator are stored side by side. Operators with
about the same number of vectors form a group: they are padded to the same number of vectors and applied by one
batched product. Every stage has all the vectors of the stage before it. Rows are moved by index, and each row has one
place in a stage, so the backward pass reads rows from the places to which the forward pass wrote them.

Shapes: T vectors for each head, K channels, H heads, P operators, and m copies of the vectors, which have the same
positions (rows of a batch that share their positions). A row holds the m copies of one vector, m * K numbers. The row
of vector t and head h has the index t * H + h. In a stage, A vectors take part, and O operators are used.
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

_FULL = 0.75  # minimum share of filled places of an operator in its group


class WalkTable:
    """The operators and their transposes.

    Matrix products are fastest if both are stored in the order in which they are read.

    Argument: `operators`, [P, H, K, K].
    """

    def __init__(self, operators: Tensor) -> None:
        """Keep the operators."""
        self.operators = operators
        self._cast: tuple[Tensor, Tensor] | None = None

    def of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The operators and their transposes in a dtype, without a gradient. -> [P, H, K, K] each"""
        if self._cast is None or self._cast[0].dtype != dtype:
            found = self.operators.detach().to(dtype)
            self._cast = found, found.mT.contiguous()
        return self._cast

    def there(self, index: I64) -> Tensor:
        """Copy an array of indices, int64 [...], to the device of the operators."""
        return torch.from_numpy(np.ascontiguousarray(index)).to(self.operators.device, non_blocking=True)


class WalkStage:
    """One stage: which vectors meet which operator. Vectors that meet none have places at the end.

    Arguments: `vectors`, int64 [A], ascending, the vectors that take part; `which`, int64 [A], the number of each
    one's operator in the table, or -1 for none; `table`, the operators.
    """

    def __init__(self, vectors: I64, which: I64, table: WalkTable) -> None:
        """Assign a place to each row that takes part."""
        self.vectors, heads = vectors, table.operators.shape[1]
        used, inverse, count = np.unique(which, return_inverse=True, return_counts=True)
        slot = np.empty_like(inverse)
        slot[np.argsort(inverse, kind="stable")] = np.arange(inverse.size) - np.repeat(np.cumsum(count) - count, count)
        # each operator's first place, and its number of places for a head
        first, size = np.empty_like(count), count.copy()
        self.size = 0  # number of places
        groups = _alike(np.flatnonzero(used >= 0), count)
        for members in groups:
            size[members] = count[members[0]]
            first[members] = self.size + np.arange(members.size) * heads * count[members[0]]
            self.size += members.size * heads * int(count[members[0]])
        first[used < 0] = self.size
        idle = int(count[0]) * heads if used[0] < 0 else 0
        self.operators = table.there(used[np.concatenate(groups)] if groups else used[:0])  # in the order of the groups
        self._met = [members.size * heads for members in groups]  # each group's number of operators of all heads
        self._sizes = [met * int(count[members[0]]) for met, members in zip(self._met, groups, strict=True)]
        self._sizes.append(idle)
        self.size += idle
        self._place = (first[inverse] + slot)[:, None] + size[inverse][:, None] * np.arange(heads)
        self._cast: dict[tuple[torch.dtype, bool], tuple[Tensor, ...]] = {}

    def places(self, vectors: I64) -> I64:
        """The places of the rows of some of the vectors. int64 [V] -> int64 [V * H]"""
        return self._place[np.searchsorted(self.vectors, vectors)].ravel()

    def at_places(self, values: I64) -> I64:
        """The value at each place, from values of all rows that take part; 0 at empty places.

        int64 [A * H] -> int64 [places]
        """
        found = np.zeros(self.size, dtype=np.int64)
        found[self._place.ravel()] = values
        return found

    def rows(self) -> I64:
        """The indices of the rows that take part. -> int64 [A * H]"""
        return _rows(self.vectors, self._place.shape[1])

    def empty(self) -> I64:
        """The indices of the empty places. -> int64 [empty places]"""
        return np.flatnonzero(self.at_places(np.ones(self._place.size, dtype=np.int64)) == 0)

    def of(self, table: WalkTable, dtype: torch.dtype, transposed: bool) -> tuple[Tensor, ...]:
        """The operators of each group in a dtype, or their transposes.

        -> [O * H, K, K] each, O operators in the group
        """
        key = dtype, transposed
        if key not in self._cast:
            self._cast[key] = self.by_group(table.of(dtype)[transposed].index_select(0, self.operators))
        return self._cast[key]

    def by_group(self, operators: Tensor) -> tuple[Tensor, ...]:
        """Cut operators, which are in the order of this stage, into its groups. [O, H, K, K] -> [O * H, K, K] each"""
        return operators.flatten(0, 1).split(self._met)

    def in_groups(self, rows: Tensor, channels: int) -> tuple[list[Tensor], Tensor]:
        """Cut rows into the vectors of each group, and the rows that meet no operator.

        [., m * K] -> [O * H, n * m, K] for each group, with n places for each operator and head, and [., m * K]
        """
        *parts, idle = rows.split(self._sizes)
        return [part.view(met, -1, channels) for part, met in zip(parts, self._met, strict=True)], idle


def _rows(vectors: I64, heads: int) -> I64:
    """The indices of the rows of vectors. int64 [A] -> int64 [A * H]"""
    rows: I64 = (vectors[:, None] * heads + np.arange(heads)).ravel()
    return rows


def _alike(which: I64, count: I64) -> list[I64]:
    """Group operators with about the same number of vectors. Groups with the most vectors come first.

    which: int64 [.], the operators to group; count: int64, the number of vectors of each operator.
    """
    order = which[np.argsort(-count[which], kind="stable")]
    groups, begin = [], 0
    while begin < order.size:
        end = begin + int((count[order[begin:]] >= _FULL * count[order[begin]]).sum())
        groups.append(order[begin:end])
        begin = end
    return groups


class Walk:
    """Stages in the order in which they act, and how vectors move from one stage to the next.

    Arguments: `stages`, of which the last has all T vectors; `table`, the operators.
    """

    def __init__(self, stages: Sequence[WalkStage], table: WalkTable) -> None:
        """Copy the indices of all stages to the device."""
        self.stages, self.table = stages, table
        there = table.there
        self.take = [there(stage.at_places(stage.rows())) for stage in stages]  # for each stage, the row at each place
        self.empty = [there(stage.empty()) for stage in stages]
        self.rows = [there(stage.rows()) for stage in stages]
        self.place = [there(stage.places(stage.vectors)) for stage in stages]  # the place of each of `rows`
        onward = [after.places(stage.vectors) for stage, after in pairwise(stages)]
        self.onward = [there(places) for places in onward]  # the place of each of `rows` in the next stage
        # for each place, the place of its row in the next stage
        self.before = [there(stage.at_places(p)) for stage, p in zip(stages, onward, strict=False)]

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply each vector from the left by its operators. [T * H, m * K] -> the same"""
        with torch.autocast(x.device.type, enabled=False):  # autocast would change the dtype
            out: Tensor = _Walking.apply(x, self.table.operators, self)
            return out


class _Walking(torch.autograd.Function):
    """The products of a walk, with their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, operators: Tensor, walk: Walk) -> Tensor:
        """Apply the stages in order. [T * H, m * K], [P, H, K, K] -> [T * H, m * K]"""
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
        """The gradients of the rows and of the operators."""
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
