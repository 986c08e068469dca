"""Sinusoidal: the formula by hand, and that it is really added."""

from __future__ import annotations

import math

import torch

from ape_cli import position


def test_values_by_hand() -> None:
    scheme = position.make("sinusoidal", d_model=8, heads=2)
    x = torch.zeros(1, 3, 8, dtype=torch.float64)
    found = scheme.embed(x, scheme.context(torch.tensor([[0, 1, 50]])))
    for n, p in enumerate((0, 1, 50)):
        for i in range(4):
            angle = p / 10_000 ** (2 * i / 8)
            assert math.isclose(found[0, n, 2 * i], math.sin(angle), abs_tol=1e-12)
            assert math.isclose(found[0, n, 2 * i + 1], math.cos(angle), abs_tol=1e-12)


def test_a_shift_is_a_fixed_rotation() -> None:
    """PE(p + k) = R_k PE(p), the same R_k for every p."""
    scheme = position.make("sinusoidal", d_model=16, heads=2)

    def table(positions: torch.Tensor) -> torch.Tensor:
        empty = torch.zeros(1, positions.shape[1], 16, dtype=torch.float64)
        return torch.view_as_complex(scheme.embed(empty, scheme.context(positions)).unflatten(-1, (8, 2)))

    positions = torch.tensor([[0, 3, 17, 400]])
    ratio = table(positions + 5) / table(positions)
    assert torch.allclose(ratio, ratio[:, :1].expand_as(ratio), atol=1e-12)
    assert torch.allclose(ratio.abs(), torch.ones_like(ratio.abs()))
