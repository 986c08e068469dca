"""Mixed RoPE: another implementation, loops, the start in a turned frame, and what it shares with axial RoPE."""

from __future__ import annotations

import math

import torch

from ape_cli import position
from ape_cli.position._rotation import frequencies
from ape_cli.position.mixed_rope import MixedRope
from tests.position.golden import GOLDEN
from tests.position.test_axial_rope import places


def make(d_model: int = 16, heads: int = 2, structure: str = "grid(2)", seed: int = 3, base: float = 10.0) -> MixedRope:
    generator = torch.Generator().manual_seed(seed)
    scheme = position.make("mixed-rope", d_model, heads, structure=structure, generator=generator, base=base)
    assert isinstance(scheme, MixedRope)
    return scheme.double()


def test_values_of_another_implementation() -> None:
    """They differ by 2e-7, because their angles are float32."""
    given, scheme = GOLDEN["mixed_rope"], make()
    with torch.no_grad():
        scheme.frequencies.copy_(torch.tensor(given["frequencies"], dtype=torch.float64))
    x = torch.arange(1, 193, dtype=torch.float64).sin().view(1, 2, 12, 8)
    expected = torch.tensor(given["rotated"], dtype=torch.float64)
    for side in ("query", "key"):
        found = scheme.rotate(x, scheme.context(places(3, 4)), side)[0]
        assert torch.allclose(found, expected, rtol=0, atol=5e-7)


def test_it_starts_as_the_other_implementation_does() -> None:
    """Its frequencies of a head are those of ours for one angle a, with the same order of pairs and axes."""
    given = torch.tensor(GOLDEN["mixed_rope"]["frequencies"], dtype=torch.float64)  # [C, H, K/2]
    for frequency in (given, make().frequencies.detach()):
        for x, y in zip(*frequency, strict=True):
            a = math.atan2(float(y[0]), float(x[0]))
            size = frequencies(4, 10.0)
            assert torch.allclose(x, torch.cat([size * math.cos(a), -size * math.sin(a)]), atol=1e-6)
            assert torch.allclose(y, torch.cat([size * math.sin(a), size * math.cos(a)]), atol=1e-6)


def test_frames_are_rotations_of_any_dimension() -> None:
    """The frequencies of the first pair of each axis are the columns of a rotation, another one for each head."""
    found = make(72, 3, "grid(4)").frequencies.detach()  # K = 24: shares of 6 channels, 3 pairs
    frames = found[:, :, ::3].transpose(0, 1)  # [H, C, C]
    assert torch.allclose(frames.mT @ frames, torch.eye(4, dtype=torch.float64).expand(3, 4, 4), atol=1e-6)
    assert torch.allclose(torch.linalg.det(frames), torch.ones(3, dtype=torch.float64), atol=1e-6)
    assert not torch.allclose(frames[0], frames[1], atol=0.1)
