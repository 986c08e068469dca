"""What single steps of a structure do to vectors, and how well their law holds.

Shapes: G generators, S operators of each (sides and heads), N vectors or positions, R channels on which operators act,
D channels of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ape_cli.evaluation.laws import LIMITS
from ape_cli.evaluation.laws._subjects import D_MODEL, greatest, origin
from ape_cli.structure import Structure, Tree

DTYPE = torch.float64
LIMIT = LIMITS[DTYPE]  # of an error, if a law holds
AHEAD = (1, 7, 50)  # steps at which a fitted operator is tested
SAMPLES = 6 * D_MODEL  # positions, for the fit and for its test together
_SPAN = 1e-9  # of the greatest singular value: smaller ones are 0


@dataclass(frozen=True)
class Action:
    """What single steps do, and how well the law holds."""

    law: str
    error: float
    steps: Tensor | None = None  # float64 [G, S, R, R], None if there are no operators
    # how far terms of scores are from matrix elements u' [x]' [y] v: of operators that are given as matrices, or of
    # fitted ones, if they do not fit
    element: float | None = None
    affine: Tensor | None = None  # affine maps, whose linear parts are `steps`, as matrices [G, S, R + 1, R + 1]

    @property
    def commutator(self) -> float | None:
        """The greatest entry of g h - h g for two generators g and h. None if there is only one."""
        maps = self.steps if self.affine is None else self.affine
        if maps is None or len(maps) < 2:
            return None
        products = maps[:, None] @ maps[None]
        return float(greatest(products - products.transpose(0, 1)))


def generators(structure: Structure) -> Tensor:
    """The paths of a single step: one for each branch of a tree, one for any other factor. -> int64 [1, G(, C)]"""
    each: list[Tensor] = []
    for factor, simple in enumerate(structure.simple):
        for step in range(2, simple.branching + 2) if isinstance(simple, Tree) else (1,):
            at = origin(structure)
            at.view(-1)[factor] = step  # the heap index of a child, or one step ahead
            each.append(at)
    return torch.cat(each, dim=1)


def fitted(before: Tensor, after: dict[int, Tensor]) -> tuple[Tensor, float]:
    """The operator R of a step, fitted to half of some vectors, and the greatest error of R^n at the other half.

    Errors of vectors with entries above 1 are relative to the greatest entry.

    before: float64 [N, D]; after: the vectors n steps ahead, [N, D] for each n -> R, float64 [R, R] on the R dimensions
    that the vectors span
    """
    fit, test = slice(0, None, 2), slice(1, None, 2)
    _, size, axes = torch.linalg.svd(before[fit], full_matrices=False)
    axes = axes[size > _SPAN * size[0]]  # [R, D]
    start = before @ axes.mT
    matrix = torch.linalg.lstsq(start[fit], after[1][fit] @ axes.mT, driver="gelsd").solution.mT
    powers = {n: torch.linalg.matrix_power(matrix, n) for n in after}
    errors = [greatest(start[test] @ powers[n].mT @ axes - there[test]) for n, there in after.items()]
    scale = torch.stack([greatest(there) for there in after.values()]).max().clamp(min=1)
    return matrix, float(torch.stack(errors).max() / scale)
