"""The spectrum of operators, which shows the kind of their representation.

The kind of a representation follows from the eigenvalues and the Jordan structure of the operators of single steps.
Every invertible matrix is a product g = e h u of commuting matrices (the multiplicative Jordan decomposition): e is
elliptic (diagonalisable over the complex numbers, with eigenvalues of modulus 1), h is hyperbolic (diagonalisable, with
positive eigenvalues), and u is unipotent (the identity plus a nilpotent matrix). A kind names the parts that are not
the identity, over all matrices that are given.

Tolerances, in float64: eigenvalues that are closer than `SAME` may belong to one Jordan block. If the matrix is
defective there, rounding has spread them around their mean, and the mean is used. (The spread is about the n-th root of
the rounding error for a block of n rows, so blocks of more than 4 rows may not be recognised.) A modulus is 1, and an
angle is 0, up to `UNIT`. Entries are 0 or 1 up to `ENTRY`.

Shapes: G matrices, R channels on which they act.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

SAME = 1e-3
UNIT = 1e-7
ENTRY = 1e-12
TRIVIAL, PERMUTATION, PARTIAL = "trivial", "permutation", "partial permutation"
PARTS = ("elliptic", "hyperbolic", "unipotent")


@dataclass(frozen=True)
class Spectrum:
    """What is known of some matrices."""

    kind: str  # `TRIVIAL`, `PERMUTATION`, `PARTIAL`, or `PARTS` joined by "and"
    eigenvalues: list[list[tuple[float, float]]]  # real and imaginary parts, for each matrix
    block: int  # rows of the largest Jordan block; 1 if all matrices are diagonalisable


def spectrum_of(matrices: Tensor) -> Spectrum:
    """The spectrum of some matrices. float64 [G, R, R]

    Raises `ValueError` if an entry is not finite: LAPACK may crash on it.
    """
    if not matrices.isfinite().all():
        raise ValueError("an operator has entries that are not finite")
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    jordan = [_jordan(matrix) for matrix in matrices]
    if (matrices - identity).abs().max() <= ENTRY:
        kind = TRIVIAL
    elif (shuffled := _permutes(matrices)) is not None:
        kind = shuffled
    else:
        parts = {part for values, _ in jordan for part in _parts(values)} | {"unipotent" for _, n in jordan if n > 1}
        kind = " and ".join(part for part in PARTS if part in parts) or TRIVIAL
    eigenvalues = [[(value.real, value.imag) for value in values] for values, _ in jordan]
    return Spectrum(kind, eigenvalues, max(n for _, n in jordan))


def _permutes(matrices: Tensor) -> str | None:
    """`PERMUTATION` if all are 0/1 matrices with a single 1 in each row and column, `PARTIAL` if some lack it."""
    if torch.minimum(matrices.abs(), (matrices - 1.0).abs()).max() > ENTRY:
        return None
    sums = torch.stack([matrices.sum(-1), matrices.sum(-2)]).round()
    if sums.max() > 1:
        return None
    return PERMUTATION if sums.min() == 1 else PARTIAL


def _parts(values: list[complex]) -> set[str]:
    """The semisimple parts that eigenvalues show."""
    turned = any(abs(math.atan2(value.imag, value.real)) > UNIT for value in values if value)
    scaled = any(abs(abs(value) - 1.0) > UNIT for value in values)
    return {part for part, there in zip(PARTS, (turned, scaled), strict=False) if there}


def _jordan(matrix: Tensor) -> tuple[list[complex], int]:
    """The eigenvalues of a matrix, and the size of its largest Jordan block. float64 [R, R]"""
    raw = torch.linalg.eigvals(matrix)
    values: list[complex] = []
    largest = 1
    for group in _groups(raw):
        size = _block(matrix, group) if len(group) > 1 else 1
        largest = max(largest, size)
        values += [complex(group.mean())] * len(group) if size > 1 else [complex(value) for value in group]
    return values, largest


def _groups(values: Tensor) -> list[Tensor]:
    """Eigenvalues that are linked by distances of at most `SAME`. complex [R] -> complex [n] each"""
    near = ((values[:, None] - values[None]).abs() <= SAME).double()
    for _ in range(max(1, len(values).bit_length())):  # the transitive closure
        near = ((near @ near) > 0).double()
    labels = near.argmax(dim=1)
    return [values[labels == label] for label in labels.unique()]


def _block(matrix: Tensor, group: Tensor) -> int:
    """The size of the largest Jordan block of an eigenvalue: the power from which on the null space is complete.

    `group`: what rounding has made of the eigenvalue, complex [n]. A singular value is 0 if it is no greater than the
    spread of the group allows.
    """
    centre = group.mean()
    spread = float((group - centre).abs().max())
    rest = matrix.to(group.dtype) - centre * torch.eye(len(matrix), dtype=group.dtype)
    power, norm = rest, float(torch.linalg.matrix_norm(rest, 2))
    for size in range(1, len(group)):
        tolerance = max(UNIT * norm ** (size - 1), 4 * spread * norm ** (size - 1))
        if int((torch.linalg.svdvals(power) <= tolerance).sum()) >= len(group):
            return size
        power = power @ rest
    return len(group)
