"""The exponential of skew matrices, compared with closed forms and with torch; its gradient and the group laws."""

from __future__ import annotations

import math

import pytest
import torch

from ape_cli.position._operators import exponential, random_orthogonal, skew, skew_of
from tests.position.draws import draw

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13}  # angles of one turn, doubled by each doubling
LARGEST = [1e-6, 0.3, 1.0, 3.0, 30.0]  # angles in radians, from almost nothing to five turns


def drawn(largest: float, channels: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles up to `largest` and the planes that they rotate. -> [2, 3, K/2], [2, 3, K, K], float64"""
    draws = torch.Generator().manual_seed(seed)
    angles = largest * torch.rand(2, 3, channels // 2, dtype=torch.float64, generator=draws)
    angles[0, 0, 0] = largest
    return angles, random_orthogonal((2, 3, channels, channels), draws)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("largest", LARGEST)
def test_values(dtype: torch.dtype, largest: float) -> None:
    """exp(Q T Q') = Q R Q', where R is the rotation by each angle. It agrees with torch and is orthogonal."""
    for channels in [2, 4, 16]:
        check_values(dtype, channels, largest)


def check_values(dtype: torch.dtype, channels: int, largest: float) -> None:
    angles, planes = drawn(largest, channels)
    turn = torch.zeros(2, 3, channels, channels, dtype=torch.float64)
    for i in range(channels // 2):
        c, s, block = angles[..., i].cos(), angles[..., i].sin(), slice(2 * i, 2 * i + 2)
        turn[..., block, block] = torch.stack([c, -s, s, c], dim=-1).unflatten(-1, (2, 2))
    s = skew_of(angles, planes)
    found = exponential(s.to(dtype))
    assert found.dtype == dtype
    tolerance = TOLERANCE[dtype] * max(1.0, largest)
    assert torch.allclose(found.double(), planes @ turn @ planes.mT, rtol=0, atol=tolerance)
    assert torch.allclose(found, torch.linalg.matrix_exp(s.to(dtype)), rtol=0, atol=tolerance)
    identity = torch.eye(channels, dtype=dtype).expand_as(found)
    assert torch.allclose(found @ found.mT, identity, rtol=0, atol=tolerance)
    assert torch.allclose(torch.linalg.det(found), torch.ones(2, 3, dtype=dtype), rtol=0, atol=channels * tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_just_below_a_power_of_two(dtype: torch.dtype) -> None:
    """The largest angles for which the polynomial is used: the norm of a plane's matrix is its angle."""
    for exponent in range(-3, 6):
        for angle in (math.nextafter(2.0**exponent, 0.0), 2.0**exponent):
            s = torch.tensor([[0.0, -angle], [angle, 0.0]], dtype=dtype)
            c, n = math.cos(angle), math.sin(angle)
            expected = torch.tensor([[c, -n], [n, c]], dtype=torch.float64)
            assert torch.allclose(exponential(s).double(), expected, rtol=0, atol=TOLERANCE[dtype] * max(1.0, angle))


@pytest.mark.parametrize("largest", [0.0, *LARGEST])
def test_gradient(largest: float) -> None:
    """The gradient agrees with differences and with torch, for matrices that stay skew."""
    for channels in [2, 6]:
        check_gradient(channels, largest)


def check_gradient(channels: int, largest: float) -> None:
    free = (skew_of(*drawn(largest, channels)) / 2).requires_grad_()
    weights = draw(*free.shape, seed=3)
    one, other = (
        torch.autograd.grad((f(skew(free)) * weights).sum(), free)[0] for f in (exponential, torch.linalg.matrix_exp)
    )
    assert torch.allclose(one, other, rtol=0, atol=1e-12 * max(1.0, largest))
    single = free.detach()[0, 0].requires_grad_()
    assert torch.autograd.gradcheck(lambda x: exponential(skew(x)), single)
    a, b = (
        torch.autograd.grad((f(skew(free).float()) * weights).sum(), free)[0]
        for f in (exponential, torch.linalg.matrix_exp)
    )
    assert torch.allclose(a, b, rtol=0, atol=1e-4 * max(1.0, largest))
