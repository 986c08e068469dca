"""The locality bias on grids, by hand: along the path or the straight line."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position.orthogonal_grid import OrthogonalGrid

C = 0.9


def make(distance: str, structure: str = "grid(2)", decay: float | None = C) -> OrthogonalGrid:
    generator = torch.Generator().manual_seed(3)
    scheme = position.make(
        "orthogonal-grid", 16, 2, structure=structure, decay=decay, generator=generator, distance=distance
    )
    assert isinstance(scheme, OrthogonalGrid)
    return scheme.double()


def decay(scheme: position.Scheme, x: Tensor, y: Tensor) -> Tensor:
    """The distances [M, N] of places [M, C] and [N, C]."""
    found = scheme.decay(scheme.context(x[None]), scheme.context(y[None]))
    assert found is not None
    assert found.dtype == torch.float32
    return found[0, 0]


@pytest.mark.parametrize(
    ("x", "y", "steps", "straight"),
    [
        ([1, 1], [4, 5], 7, 5.0),  # three rows and four columns
        ([4, 1], [1, 5], 7, 5.0),
        ([2, 2], [3, 3], 2, math.sqrt(2)),
        ([6, 2], [6, 9], 7, 7.0),  # along an axis, both distances are the same
        ([3, 8], [3, 8], 0, 0.0),
        ([0, 0], [5, 12], 17, 13.0),  # from SOS
        ([1, 2, 3], [2, 4, 5], 5, 3.0),  # three axes: 1, 2 and 2
    ],
)
def test_distances_by_hand(x: list[int], y: list[int], steps: int, straight: float) -> None:
    for distance, expected in (("path", C**steps), ("euclidean", C**straight)):
        scheme = make(distance, f"grid({len(x)})")
        found = decay(scheme, torch.tensor([x]), torch.tensor([y]))
        assert math.isclose(float(found), expected, rel_tol=1e-6)
