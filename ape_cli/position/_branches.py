r"""Operators of `tree(k)`: a path from the root is a product of orthogonal matrices, one for each branch taken.

Source: Algebraic Positional Encodings, sections 3.2 and 4.2.

Branch $b = 1..k$ has the matrix $W_b = \exp(A_b - A_b^\top)$. Each head has its own set, which starts near the
identity, or as the rotations of RoPE. In that case all branches and heads start alike. The node at the path
$b_1 b_2 … b_L$ from the root has the operator $W_{b_1} W_{b_2} … W_{b_L}$. SOS and the root have the identity.

A table holds the operators of all paths of up to `reach` steps, level by level. A longer path is cut into pieces of
that length, and the operators of the pieces are applied one after the other. The table depends only on the parameters,
so the contexts of a forward pass share it. `_grouped.py` applies the operators: to groups of several sizes on a CPU,
and to tiles of equal size with a plan, as on a GPU.

Shapes: B batch, H heads, N tokens, K channels of a head, P operators in the table, k branches, T vectors for each head,
of which A take part in a stage. Rows [T * H, m * K] are those of `_grouped.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ape_cli.core.rng import I64
from ape_cli.data.position_plan import PositionPlan
from ape_cli.position import _grouped
from ape_cli.position._grouped import Products, Stage, Unplanned, tiles
from ape_cli.position._operators import (
    ROPE_BASE,
    Interpretation,
    exact,
    exponential,
    random_orthogonal,
    skew,
    skew_of,
    start_angles,
)
from ape_cli.position._rotation import frequencies
from ape_cli.structure import Structure, Tree

_SHARE = 32  # minimum number of vectors for each operator of the table, on average


class Branches(Interpretation):
    """Operators of `tree(k)`: k free generators for each head."""

    def __init__(self, structure: Structure, channels: int, heads: int, generator: torch.Generator | None) -> None:
        """Draw a random basis for each generator, with start angles near the identity."""
        super().__init__()
        assert isinstance(structure, Tree)
        self.tree, self.heads, self.channels = structure, heads, channels
        k = structure.branching
        basis = random_orthogonal((k, heads, channels, channels), generator)
        angles = start_angles(k, heads, channels // 2)
        self.free = nn.Parameter((skew_of(angles, basis) / 2).float())  # A: [branch, H, K, K]

    @torch.no_grad()
    def start_as_rope(self) -> None:
        """Set each W to the rotation of the channel pairs by RoPE's frequencies. All branches and heads are alike."""
        s = skew_of(frequencies(self.channels, ROPE_BASE), torch.eye(self.channels, dtype=torch.float64))
        self.free.copy_((s / 2).expand(self.tree.branching, self.heads, -1, -1))

    def generators(self) -> Tensor:
        """W of each branch and head. -> float32 or wider [branch, H, K, K]"""
        return self._exact_generators().to(self._dtype)

    def _exact_generators(self) -> Tensor:
        """W in the precision in which products of generators are computed. -> [branch, H, K, K]"""
        return exponential(skew(exact(self.free)))

    @property
    def _dtype(self) -> torch.dtype:
        """The dtype of operators: float32 or wider."""
        return torch.promote_types(self.free.dtype, torch.float32)

    def table(self, reach: int) -> Tensor:
        """The operators of all paths of up to `reach` steps, by heap index from 1 on. -> float32 or wider [P, H, K, K]

        Neither parameters of 16 bits nor autocast round them, because their products would not stay orthogonal.
        """
        with torch.autocast(self.free.device.type, enabled=False):
            w = self._exact_generators()
            identity = torch.eye(self.channels, dtype=w.dtype, device=w.device)
            levels = [identity.expand(1, self.heads, -1, -1)]
            for _ in range(reach):
                above = levels[-1].transpose(0, 1).flatten(1, 2)  # [H, n K, K]
                below = (above @ w).unflatten(2, (-1, self.channels))  # [k, H, n, K, K]
                levels.append(below.permute(2, 0, 1, 3, 4).flatten(0, 1))  # [n k, H, K, K]
            return torch.cat(levels).to(self._dtype)

    def plan(self, positions: Tensor, shared_with: PositionPlan | None = None) -> PositionPlan:
        """The plan of positions: four tensors for each stage, those of a `Stage` in which all rows take part.

        positions: int64 [B or 1, N] on the CPU. `sizes` of the plan holds the number of steps of the longest path in
        the table.
        """
        heap = np.maximum(positions.numpy().ravel(), 1)
        reach = shared_with.sizes[0] if shared_with else self._tiled_reach(heap.size)
        operators = self.tree.level_start(reach + 1) - 1
        tensors: list[Tensor] = []
        for on, which in self._pieces(heap, self.tree.level(heap), reach):
            operator = np.zeros_like(heap)  # the identity, for vectors that take no part in this stage
            operator[on] = which
            stage = Stage.of(operator, *tiles(operator, operators), self.heads)
            tensors += [stage.take, stage.slot, stage.empty, stage.operator]
        return PositionPlan(tensors=tuple(tensors), sizes=(reach,))

    def prepare(
        self, positions: Tensor, plan: PositionPlan | None = None, shared_with: Products | None = None
    ) -> Products:
        """The operators of positions, int64 [B or 1, N]. Without a plan they are read back to the host from a GPU.

        A compiled function reads them when it runs (see `Unplanned`).
        """
        rows = positions.shape[0]
        if plan:
            (reach,), tensors = plan.sizes, iter(plan.tensors)
            stages = [
                Stage(take, slot, empty, operator, ((len(operator), _grouped.TILE),))
                for take, slot, empty, operator in zip(tensors, tensors, tensors, tensors, strict=True)
            ]
        elif torch.compiler.is_compiling():
            reach = shared_with.reach if shared_with else self._tiled_reach(positions.numel())
            table = shared_with.table if shared_with else self.table(reach)
            return Unplanned(self._numbers(positions.flatten(), reach), table, rows, reach)
        else:
            heap = np.maximum(positions.detach().cpu().numpy().ravel(), 1)
            depth = self.tree.level(heap)
            reach = shared_with.reach if shared_with else self._reach(heap.size, int(depth.max(initial=0)))
            stages = []
            for on, which in self._pieces(heap, depth, reach):
                below = which > 0  # the root and SOS take no part
                stages.append(Stage.of_some(on[below], which[below], self.heads, positions.device))
        return Products(stages, shared_with.table if shared_with else self.table(reach), rows, reach)

    def _numbers(self, heap: Tensor, reach: int) -> Tensor:
        """The operator of each piece of each path, 0 where there is none, the last piece first. int64 [T] -> [S, T]

        There are enough pieces for the deepest node of all.
        """
        heap = heap.clamp(min=1)
        pieces = -(-self.tree.max_depth // reach)
        above = torch.arange(pieces - 1, -1, -1, device=heap.device)[:, None] * reach  # steps before the piece
        return self._number(heap, self.tree.level(heap), above, reach)

    def _pieces(self, heap: I64, depth: I64, reach: int) -> Iterator[tuple[I64, I64]]:
        """Cut paths into pieces of up to `reach` steps, and yield them with the last steps of the paths first.

        Each item is a pair of arrays: the indices of the vectors that have such a piece, ascending, and the number of
        each piece's operator in the table, where 0 is the identity. heap, depth: int64 [T] -> int64 [A], int64 [A]
        """
        deepest = int(depth.max(initial=0))
        for above in range(reach * ((deepest - 1) // reach), -1, -reach):  # the last steps act first
            on = np.arange(heap.size) if above == 0 else np.flatnonzero(depth > above)
            yield on, self._number(heap[on], depth[on], above, reach)

    def _number(self, heap: Any, depth: Any, above: Any, reach: int) -> Any:
        """The number in the table of the piece of each path that begins `above` steps below the root.

        int64 arrays or tensors, broadcast. 0, the number of the identity, where the path ends before.
        """
        left, after = (depth - above).clip(0), (depth - above - reach).clip(0)  # steps from the ends of the piece on
        start, end = self.tree.ancestor(heap, left), self.tree.ancestor(heap, after)
        return end - (start - 1) * self.tree.branching ** (left - after) - 1  # the path from start to end, minus 1

    def _tiled_reach(self, vectors: int) -> int:
        """The number of steps of the longest paths in the table of a plan.

        It is the largest number for which the table has no more operators than the vectors fill tiles, but at least
        1. The number does not depend on the depth of the vectors, so batches of one shape have tables of one shape.
        """
        reach = 1
        while _grouped.TILE * (self.tree.level_start(reach + 2) - 1) <= vectors:
            reach += 1
        return reach

    def _reach(self, vectors: int, deepest: int) -> int:
        """The number of steps of the longest paths in the table.

        It is the largest number for which each operator has `_SHARE` vectors or more on average, but at least 1 and
        otherwise at most `deepest`.
        """
        reach = 1
        while reach < deepest and _SHARE * self.tree.level_start(reach + 2) <= vectors:
            reach += 1
        return reach
