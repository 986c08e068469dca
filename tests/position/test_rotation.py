"""The rotation of pairs of channels: sines and cosines written out, gradients, strides and dtypes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli.position._rotation import Rotations, rotate_halves, rotate_pairs
from tests.position.draws import draw

B, H, N, K = 2, 3, 4, 6
ANGLES = {  # positions that rows and heads share, those of learned angles, and those of separate rows
    "shared": (1, 1, N, K // 2),
    "of heads": (1, H, N, K // 2),
    "of rows": (B, 1, N, K // 2),
    "each its own": (B, H, N, K // 2),
}


def written_out(x: Tensor, angle: Tensor) -> Tensor:
    """(a, b) -> (a cos - b sin, a sin + b cos), where channels (2i, 2i+1) are (a, b)."""
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = angle.cos(), angle.sin()
    return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)


@pytest.mark.parametrize("shape", ANGLES.values(), ids=ANGLES)
def test_against_sines_and_cosines(shape: tuple[int, ...]) -> None:
    """Values, and gradients of vectors and of angles that several vectors share."""
    x, angle, weights = draw(B, H, N, K).requires_grad_(), 9 * draw(*shape, seed=2), draw(B, H, N, K, seed=3)
    angle.requires_grad_()
    found = []
    for rotated in (rotate_pairs(x, Rotations(angle)), written_out(x, angle)):
        found.append([rotated, *torch.autograd.grad((rotated * weights).sum(), [x, angle])])
    for one, other in zip(*found, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", ANGLES.values(), ids=ANGLES)
@pytest.mark.parametrize("rotate", [rotate_pairs, rotate_halves])
def test_gradients_by_differences(shape: tuple[int, ...], rotate) -> None:
    x, angle = draw(B, H, N, K).requires_grad_(), (9 * draw(*shape, seed=2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, angle: rotate(x, Rotations(angle)), (x, angle))
    assert torch.autograd.gradcheck(lambda x: rotate(x, Rotations(angle.detach())), x)
    assert torch.autograd.gradcheck(lambda angle: rotate(x.detach(), Rotations(angle)), angle)
