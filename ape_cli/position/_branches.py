"""Operators of `tree(k)`: a path from the root is a product of orthogonal matrices, one for each branch taken.

Source: Algebraic Positional Encodings, sections 3.2 and 4.2.
W_b = exp(A_b - A_b'), b = 1..k the branch, one set per head, near the identity at first. A node at the
path b1 b2 ... bL from the root down has the operator W_b1 W_b2 ... W_bL; SOS and the root are the identity.

A table holds the operators of all paths of up to `reach` steps, level by level; a longer path is cut into
pieces of that length, and its vectors meet the operators of the pieces one after the other. The table follows from
the parameters alone, so the contexts of a forward pass share it. On a CPU vectors are grouped by their number
(`_walk.py`); with a plan, as on a GPU, they are put into tiles (`_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli.core.rng import I64
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import _tiles
from ape_cli.position._algebra import Interpretation
from ape_cli.position._orthogonal import exact, exponential, random_orthogonal, skew, skew_of, start_angles
from ape_cli.position._walk import Walk, WalkStage, WalkTable
from ape_cli.structure import Structure, Tree, trees

_SHARE = 32  # vectors, at the least, for each operator of the table on average


@dataclass(frozen=True)
class _Plan:
    table: WalkTable  # of operators, by heap index from the root on
    reach: int  # steps of the longest path in it
    walk: Walk | _Tiling | None  # None: all stand at the root
    rows: int  # of the positions: B, or 1 that all share


class _Tiling:
    """Stages of tiles, in the order in which they act."""

    def __init__(self, plan: PositionPlan, table: Tensor) -> None:
        three = zip(plan.tensors[::3], plan.tensors[1::3], plan.tensors[2::3], strict=True)
        self.stages = [_tiles.TileStage(vector, place, operator, table) for vector, place, operator in three]

    def __call__(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            for stage in self.stages:
                x = stage(x)
            return x


class Branches(Interpretation):
    """`tree(k)`: k free generators per head."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        assert isinstance(structure, Tree)
        self.tree, self.heads, self.channels = structure, heads, channels
        k = structure.branching
        basis = random_orthogonal((k, heads, channels, channels), generator)
        angles = start_angles(k, heads, channels // 2)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # A: [branch, H, K, K]

    def generators(self) -> Tensor:
        """W of each branch and head. -> [branch, H, K, K]"""
        return self._exact_generators().to(self.free.dtype)

    def _exact_generators(self) -> Tensor:
        """W in the precision in which products of them are computed. -> [branch, H, K, K]"""
        return exponential(skew(exact(self.free)))

    def table(self, reach: int) -> Tensor:
        """The operators of all paths of up to `reach` steps, by heap index from 1 on. -> [P, H, K, K]

        In the parameters' own precision, also within autocast: products of bf16 would not stay orthogonal.
        """
        with torch.autocast(self.free.device.type, enabled=False):
            w = self._exact_generators()
            identity = torch.eye(self.channels, dtype=w.dtype, device=w.device)
            levels = [identity.expand(1, self.heads, -1, -1)]
            for _ in range(reach):
                above = levels[-1].transpose(0, 1).flatten(1, 2)  # [H, n K, K]
                below = (above @ w).unflatten(2, (-1, self.channels))  # [k, H, n, K, K]
                levels.append(below.permute(2, 0, 1, 3, 4).flatten(0, 1))  # [n k, H, K, K]
            return torch.cat(levels).to(self.free.dtype)

    def plan(self, positions: Tensor, beside: PositionPlan | None = None) -> PositionPlan:
        """The tiles of each stage, three tensors each (`_tiles.cut`). `sizes`: the steps of the longest path."""
        heap = np.maximum(positions.numpy().ravel(), 1)
        reach = beside.sizes[0] if beside else self._tiled_reach(heap.size)
        operators = self.tree.level_start(reach + 1) - 1
        tensors = []
        for on, which in self._pieces(heap, self.tree.level(heap), reach):
            met = np.zeros_like(heap)  # the identity for those that take no part
            met[on] = which
            tensors += [torch.from_numpy(x) for x in _tiles.cut(met, operators)]
        return PositionPlan(tensors=tuple(tensors), sizes=(reach,))

    def prepare_planned(self, positions: Tensor, plan: PositionPlan, beside: _Plan | None) -> _Plan:
        (reach,) = plan.sizes
        table = self._shared(reach, beside)
        walk = _Tiling(plan, table.operators) if plan.tensors else None
        return _Plan(table, reach, walk, positions.shape[0])

    def prepare(self, positions: Tensor, beside: _Plan | None = None) -> _Plan:
        heap = np.maximum(positions.detach().cpu().numpy().ravel(), 1)
        depth = self.tree.level(heap)
        deepest = int(depth.max(initial=0))
        reach = beside.reach if beside else self._reach(heap.size, deepest)
        table = self._shared(reach, beside)
        stages = [
            WalkStage(on, np.where(which == 0, -1, which), table) for on, which in self._pieces(heap, depth, reach)
        ]
        return _Plan(table, reach, Walk(stages, table) if stages else None, positions.shape[0])

    def _shared(self, reach: int, beside: _Plan | None) -> WalkTable:
        """The table of a forward pass."""
        return beside.table if beside else WalkTable(self.table(reach))

    def _pieces(self, heap: I64, depth: I64, reach: int) -> Iterator[tuple[I64, I64]]:
        """Paths cut into pieces of up to `reach` steps, the last steps first: the vectors that have such a piece,
        ascending, and the number of the piece's operator in the table, 0 for the identity."""
        deepest = int(depth.max(initial=0))
        for above in range(reach * ((deepest - 1) // reach), -1, -reach):  # the last steps act first
            on = np.arange(heap.size) if above == 0 else np.flatnonzero(depth > above)
            down = np.minimum(depth[on] - above, reach)  # steps of this piece of the path
            start, end = (
                self.tree.ancestor(heap[on], depth[on] - d) for d in (np.minimum(above, depth[on]), above + down)
            )
            yield on, trees.reroot(end, start, self.tree.branching) - 1

    def _tiled_reach(self, vectors: int) -> int:
        """Steps of the longest paths in the table of a plan: its operators are no more than the tiles of the vectors,
        whatever the vectors' depth, so that batches of one shape have one table."""
        reach = 1
        while _tiles.TILE * (self.tree.level_start(reach + 2) - 1) <= vectors:
            reach += 1
        return reach

    def _reach(self, vectors: int, deepest: int) -> int:
        """Steps of the longest paths in the table: as many as leave each operator `_SHARE` vectors on average."""
        reach = 1
        while reach < deepest and _SHARE * self.tree.level_start(reach + 2) <= vectors:
            reach += 1
        return reach

    def turn(self, x: Tensor, state: _Plan) -> Tensor:
        """[x] applied to each vector: [B, H, N, K] -> the same."""
        if state.walk is None:
            return x
        b, h, n, k = x.shape
        copies = b // state.rows
        rows = x.reshape(copies, state.rows, h, n, k).permute(1, 3, 2, 0, 4).reshape(-1, copies * k)
        turned = state.walk(rows).view(state.rows, n, h, copies, k)
        return turned.permute(3, 0, 2, 1, 4).reshape(b, h, n, k)


KINDS: dict[type[Structure], type[Interpretation]] = {Tree: Branches}
