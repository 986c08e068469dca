"""Apply to each of many vectors its own operators, out of a few, without a copy of an operator for each vector.

The products are made in stages, and in a stage each vector meets one operator. The vectors that share an operator are
put side by side, in tiles of some slots. Tiles of one size form a group, which is a single batched product. Slots
that are left are empty. There are two ways of cutting vectors into tiles:

- `groups`, for a CPU: an operator has a single tile, and operators with about the same number of vectors have tiles
  of the same size. Little is padded, and little is called.
- `tiles`, for a GPU, where launches are expensive and arithmetic is cheap: all tiles have `TILE` slots, and there are
  always T // TILE + P of them, which is enough for any T vectors and P operators. So the shapes do not depend on the
  operators, and a CUDA graph of a step can be replayed for every batch of its shape.

Shapes: T vectors for each head, K channels, H heads, P operators, n tiles, and m copies of the vectors, which have the
same positions (rows of a batch that share their positions). A row holds the m copies of one vector, m * K numbers. The
row of vector t and head h has the index t * H + h. In a stage, A vectors take part, and there are S stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ape_cli.core.rng import I64
from ape_cli.position import _matmul
from ape_cli.position._context import kept_apart

TILE = 32  # slots in a tile of fixed size
_FULL = 0.75  # minimum share of filled slots of an operator in its group


def groups(which: I64) -> tuple[I64, I64]:
    """Tiles of several sizes, the largest ones first. which: int64 [T], the number of each vector's operator

    -> int64 [n], int64 [n]: the operator of each tile and its number of slots.
    """
    used, count = np.unique(which, return_counts=True)
    order = np.argsort(-count, kind="stable")
    count, begin = count[order], 0
    size = count.copy()
    while begin < count.size:
        end = begin + int((count[begin:] >= _FULL * count[begin]).sum())
        size[begin:end] = count[begin]
        begin = end
    return used[order], size


def tiles(which: I64, operators: int) -> tuple[I64, I64]:
    """Tiles of one size. which: int64 [T], the number of each vector's operator, out of P

    -> int64 [n], int64 [n]: the operator of each tile, and its number of slots. Tiles that are left come last.
    """
    needed = -(-np.bincount(which, minlength=operators) // TILE)
    operator = np.zeros(which.size // TILE + operators, dtype=np.int64)
    operator[: needed.sum()] = np.repeat(np.arange(operators), needed)
    return operator, np.full_like(operator, TILE)


@dataclass(frozen=True)
class Stage:
    """The slots of rows in a stage. All tensors are int64. Its slots are those of [n, H, slots of a tile]."""

    take: Tensor  # the row at each slot; any row at an empty slot
    slot: Tensor  # [A * H], the slot of each row that takes part
    empty: Tensor  # the empty slots
    operator: Tensor  # [n], the operator of each tile
    sizes: tuple[tuple[int, int], ...]  # of each group: number of tiles, and slots of each
    rows: Tensor | None = None  # [A * H], the rows that take part; None if all do

    @classmethod
    def of(cls, which: I64, operator: I64, size: I64, heads: int) -> Stage:
        """Assign a slot to each row, on the CPU.

        which: int64 [A], the operator of each vector; operator, size: int64 [n], of each tile. The tiles of an
        operator are neighbours.
        """
        order = np.argsort(which, kind="stable")
        _, first, count = np.unique(which[order], return_index=True, return_counts=True)
        rank = np.empty_like(which)  # of each vector, among those of its operator
        rank[order] = np.arange(which.size) - np.repeat(first, count)
        used, first_tile = np.unique(operator, return_index=True)
        tile = first_tile[np.searchsorted(used, which)]
        tile += rank // size[tile]
        start = (np.cumsum(size) - size) * heads
        slot = ((start[tile] + rank % size[tile])[:, None] + size[tile][:, None] * np.arange(heads)).ravel()
        row = np.full(size.sum() * heads, -1, dtype=np.int64)
        row[slot] = np.arange(slot.size)
        sizes, tiles = np.unique(size, return_counts=True)
        parts = tuple(zip(tiles[::-1].tolist(), sizes[::-1].tolist(), strict=True))
        arrays = np.maximum(row, 0), slot, np.flatnonzero(row < 0), operator
        take, slots, empty, operators = map(torch.from_numpy, arrays)
        return cls(take, slots, empty, operators, parts)

    @classmethod
    def of_some(cls, on: I64, which: I64, heads: int, device: torch.device) -> Stage:
        """The slots of some vectors in `groups`, on a device.

        on: int64 [A], their numbers among all vectors; which: int64 [A], the operator of each.
        """
        alone = cls.of(which, *groups(which), heads)
        rows = torch.from_numpy((on[:, None] * heads + np.arange(heads)).ravel())
        indices = rows[alone.take], alone.slot, alone.empty, alone.operator, rows
        take, slot, empty, operator, rows = (index.to(device, non_blocking=True) for index in indices)
        return cls(take, slot, empty, operator, alone.sizes, rows)


class Products:
    """The operators of some positions, applied stage by stage.

    Arguments: `stages`, in the order in which they act, on the device of the operators; `table`, [P, H, K, K]; `rows`,
    the number of rows of the positions, B, or 1 if all rows share them; `reach`, the number of steps of the longest
    path in a table of paths.
    """

    basis = None  # the identity

    def __init__(self, stages: list[Stage], table: Tensor, rows: int = 1, reach: int = 0) -> None:
        """Keep them."""
        self.stages, self.table, self.rows, self.reach = stages, table, rows, reach
        self._cast: dict[tuple[torch.dtype, bool], list[tuple[Tensor, ...]]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the operators to the vectors of tokens. [B, H, N, K] -> the same

        Vectors of 16 bits are multiplied in float32, because rounding errors would add up from stage to stage.
        """
        b, h, n, k = x.shape
        rows, copies = self.rows, b // max(self.rows, 1)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        flat = wide.reshape(copies, rows, h, n, k).permute(1, 3, 2, 0, 4).reshape(rows * n * h, copies * k)
        with torch.autocast(x.device.type, enabled=False):  # autocast would change the dtype
            product = self.of_rows(flat).view(rows, n, h, copies, k)
        return product.permute(3, 0, 2, 1, 4).reshape(b, h, n, k).to(x.dtype)

    def of_rows(self, x: Tensor) -> Tensor:
        """Multiply each vector from the left by its operators. float32 or float64 [T * H, m * K] -> the same"""
        if torch.compiler.is_compiling():
            return self._written_out(x)
        out: Tensor = _Multiply.apply(x, self.table, self) if self.stages else x
        return out

    def _written_out(self, x: Tensor) -> Tensor:
        """`_Multiply` in operations whose gradients a compiler knows. [T * H, m * K] -> the same"""
        for i, stage in enumerate(self.stages):
            chosen = self.by_group(i, self.table.index_select(0, stage.operator).to(x.dtype))
            vectors = self.vectors(i, x.index_select(0, stage.take))
            out = [torch.bmm(v, w.mT).view(-1, x.shape[1]) for v, w in zip(vectors, chosen, strict=True)]
            x = _moved(x, torch.cat(out), stage)
        return x

    def operators(self, index: int, dtype: torch.dtype, transposed: bool) -> tuple[Tensor, ...]:
        """The operators of a stage in a dtype, or their transposes, without a gradient. -> [n * H, K, K] each group

        Products are fastest if both are stored in the order in which they are read.
        """
        key = dtype, transposed
        if key not in self._cast:
            with kept_apart():
                table = self.table.detach()
                chosen = [table.index_select(0, stage.operator).to(dtype) for stage in self.stages]
                chosen = [c.mT.contiguous() for c in chosen] if transposed else chosen
                self._cast[key] = [self.by_group(i, c) for i, c in enumerate(chosen)]
        return self._cast[key][index]

    def by_group(self, index: int, operators: Tensor) -> tuple[Tensor, ...]:
        """Cut the operators of a stage into its groups. [n, H, K, K] -> [n * H, K, K] each"""
        return operators.flatten(0, 1).split([n * self.table.shape[1] for n, _ in self.stages[index].sizes])

    def vectors(self, index: int, rows: Tensor) -> list[Tensor]:
        """Cut rows, at the slots of a stage, into the vectors of its groups. [., m * K] -> [n * H, size * m, K]"""
        heads, channels = self.table.shape[1], self.table.shape[-1]
        sizes = self.stages[index].sizes
        parts = rows.split([n * heads * size for n, size in sizes])
        return [part.view(n * heads, -1, channels) for part, (n, _) in zip(parts, sizes, strict=True)]


class _Multiply(torch.autograd.Function):
    """The products of all stages, with their gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, products: Products) -> Tensor:
        """Apply the stages in order. [T * H, m * K], [P, H, K, K] -> [T * H, m * K]"""
        out, taken = multiplied(x, products)
        ctx.products = products
        ctx.save_for_backward(*taken)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """The gradients of the rows and of the operators."""
        taken = ctx.saved_tensors  # asked for once, because a checkpoint unpacks them once
        return *gradients(grad, taken, ctx.products), None


def multiplied(x: Tensor, products: Products) -> tuple[Tensor, list[Tensor]]:
    """The rows [T * H, m * K] after all stages, and for each stage the rows that it took, [slots, m * K]."""
    taken = []
    for i, stage in enumerate(products.stages):
        here = x.index_select(0, stage.take)
        out = torch.empty_like(here)
        groups = products.vectors(i, here), products.operators(i, x.dtype, True), products.vectors(i, out)
        for v, w, o in zip(*groups, strict=True):
            _bmm(v, w, o)
        x = _moved(x, out, stage)
        taken.append(here)
    return x, taken


def gradients(grad: Tensor, taken: Sequence[Tensor], products: Products) -> tuple[Tensor, Tensor]:
    """The gradients of the rows, [T * H, m * K], and of the table, [P, H, K, K].

    `taken`: the second result of `multiplied`.
    """
    of_table = torch.zeros_like(products.table, dtype=grad.dtype)
    for i in range(len(products.stages) - 1, -1, -1):
        stage = products.stages[i]
        there = grad.index_select(0, stage.take).index_fill_(0, stage.empty, 0.0)
        back = torch.empty_like(there)
        of_operators = of_table.new_empty(stage.operator.numel(), *of_table.shape[1:])
        rows = (products.vectors(i, tensor) for tensor in (there, taken[i], back))
        operators = products.operators(i, grad.dtype, False), products.by_group(i, of_operators)
        for g, v, o, w, of_w in zip(*rows, *operators, strict=True):
            _bmm(g.mT, v, of_w)
            _bmm(g, w, o)
        _add_up(of_table, stage.operator, of_operators)
        grad = _moved(grad, back, stage)
    return grad, of_table.to(products.table.dtype)


def _bmm(a: Tensor, b: Tensor, out: Tensor) -> None:
    """`torch.bmm`, by the faster library. [n, M, K], [n, K, N] -> `out`, [n, M, N]"""
    faster = a.device.type == "cpu" and a.numel() * b.shape[-1] >= _matmul.rule().operators
    with _matmul.by_onednn() if faster else nullcontext():
        torch.bmm(a, b, out=out)


def _moved(x: Tensor, out: Tensor, stage: Stage) -> Tensor:
    """The rows after a stage: those that take part from their slots. [T * H, m * K], [slots, m * K] -> as x"""
    moved = out.index_select(0, stage.slot)
    return moved if stage.rows is None else x.index_copy(0, stage.rows, moved)


def _add_up(table: Tensor, operator: Tensor, parts: Tensor) -> None:
    """Add to each operator of a table the gradients of its tiles. [P, H, K, K], int64 [n], [n, H, K, K]

    On a GPU they are added by a matrix product, because `index_add_` would do it in no fixed order.
    """
    if not table.is_cuda:
        table.index_add_(0, operator, parts)
        return
    spread = torch.arange(len(table), device=table.device)[:, None] == operator  # bool [P, n]
    table += (spread.to(parts.dtype) @ parts.flatten(1)).view_as(table)


class Unplanned(Products):
    """The operators of a compiled function, grouped anew in each layer because they depend on values of positions.

    A compiler does not look into the operations of torch's own that group them, so one graph serves all positions.
    Arguments: `which`, int64 [S, T], the operator of each vector in each stage, 0 for none; the others: see `Products`.
    """

    def __init__(self, which: Tensor, table: Tensor, rows: int = 1, reach: int = 0) -> None:
        """Keep them."""
        super().__init__([], table, rows, reach)
        self.which = which

    def of_rows(self, x: Tensor) -> Tensor:
        """Multiply each vector from the left by its operators. float32 or float64 [T * H, m * K] -> the same"""
        out: Tensor = _multiply(x, self.table, self.which)
        return out


@torch.library.custom_op("ape::multiply", mutates_args=())
def _multiply(x: Tensor, table: Tensor, which: Tensor) -> Tensor:
    """Apply the stages in order. [T * H, m * K], [P, H, K, K], int64 [S, T] -> [T * H, m * K]"""
    out, taken = multiplied(x.contiguous(), _planned(table, which))
    return out if taken else x.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("ape::multiply_backward", mutates_args=())
def _multiply_backward(grad: Tensor, x: Tensor, table: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the rows and of the operators. The stages are applied again."""
    products = _planned(table, which)
    of_rows, of_table = gradients(grad.contiguous(), multiplied(x, products)[1], products)
    return of_rows if products.stages else grad.clone(memory_format=torch.contiguous_format), of_table


def _planned(table: Tensor, which: Tensor) -> Products:
    """The products, with a stage for each row of `which` that names an operator. [P, H, K, K], int64 [S, T]"""
    stages = []
    for numbers in which.cpu().numpy():
        on = np.flatnonzero(numbers)
        if on.size:
            stages.append(Stage.of_some(on, numbers[on], table.shape[1], table.device))
    return Products(stages, table)


_multiply.register_fake(lambda x, table, which: torch.empty_like(x, memory_format=torch.contiguous_format))
_multiply.register_autograd(
    lambda ctx, grad: (*_multiply_backward(grad, *ctx.saved_tensors), None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
_multiply_backward.register_fake(
    lambda grad, x, table, which: tuple(
        torch.empty_like(t, memory_format=torch.contiguous_format) for t in (grad, table)
    )
)
