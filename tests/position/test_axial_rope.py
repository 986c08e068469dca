"""Axial RoPE: a worked example, another implementation, and the generators of `orthogonal-grid` that it is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ape_cli import position
from ape_cli.position import Scheme
from tests.position.draws import draw
from tests.position.golden import GOLDEN


def make(d_model: int = 8, heads: int = 1, structure: str = "grid(2)", **options: float) -> Scheme:
    return position.make("axial-rope", d_model, heads, structure=structure, **options)


def places(*sides: int) -> Tensor:
    """The places of a grid, row by row. -> int64 [1, N, C]"""
    return torch.cartesian_prod(*(torch.arange(side) for side in sides))[None]


def test_worked_example() -> None:
    """K = 8 on two axes: each has the frequencies 1 and 100^(-1/2) = 0.1; rows come first."""
    x = torch.tensor([1.0, 0] * 4, dtype=torch.float64)[None, None, None]
    scheme = make()
    found = scheme.rotate(x, scheme.context(torch.tensor([[[3, 20]]])), "query").flatten()
    expected = [f(a) for a in (3, 0.3, 20, 2) for f in (math.cos, math.sin)]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-15)


def test_values_of_another_implementation() -> None:
    """They differ by 5e-8, because their angles are float32."""
    scheme = make()
    x = torch.arange(1, 97, dtype=torch.float64).sin().view(1, 1, 12, 8)
    expected = torch.tensor(GOLDEN["axial_rope"]["rotated"], dtype=torch.float64)
    for side in ("query", "key"):
        found = scheme.rotate(x, scheme.context(places(3, 4)), side)[0, 0]
        assert torch.allclose(found, expected, rtol=0, atol=2e-7)


def test_each_axis_turns_its_own_channels() -> None:
    """A step along an axis changes its share of the channels and no other, also if the shares are uneven."""
    scheme, x = make(20, structure="grid(3)"), draw(1, 1, 1, 20)
    here = scheme.rotate(x, scheme.context(torch.tensor([[[5, 5, 5]]])), "key")
    for axis, share in enumerate((slice(0, 8), slice(8, 14), slice(14, 20))):
        at = torch.tensor([[[5, 5, 5]]])
        at[..., axis] += 1
        changed = (scheme.rotate(x, scheme.context(at), "key") - here).flatten() != 0
        assert changed[share].all()
        assert int(changed.sum()) == share.stop - share.start
