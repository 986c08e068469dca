"""KERPLE: two other implementations, both kernels in loops, parameters that stay in their bounds."""

from __future__ import annotations

import pytest
import torch

from ape_cli import position
from ape_cli.position.kerple import Kerple
from tests.position.golden import GOLDEN
from tests.position.nodes import terms

KINDS = ["log", "power"]


def make(kind: str, heads: int = 3, seed: int = 1) -> Kerple:
    generator = torch.Generator().manual_seed(seed)
    scheme = position.make("kerple", d_model=8 * heads, heads=heads, generator=generator, kind=kind)
    assert isinstance(scheme, Kerple)
    return scheme.double()


def with_coefficients(kind: str, r1: list[float], r2: list[float]) -> Kerple:
    scheme, second = make(kind, len(r1)), torch.tensor(r2, dtype=torch.float64)
    with torch.no_grad():
        scheme.free[0] = torch.tensor(r1, dtype=torch.float64).log()
        scheme.free[1] = second.log() if kind == "log" else (second / 2).logit()
    return scheme


def formula(scheme: Kerple, head: int, i: int, j: int) -> torch.Tensor:
    """The term of a query at i and a key at j, of the logarithmic kernel."""
    r1, r2 = (r[head] for r in scheme.coefficients())
    return -r1 * (1 + r2 * abs(i - j)).log()


@pytest.mark.parametrize("kind", KINDS)
def test_terms_of_another_implementation(kind: str) -> None:
    """The greatest difference is 4e-16 for log, and 1e-14 for power, whose terms reach -27."""
    golden = GOLDEN["kerple"]
    p, a = golden["p"], golden["a"]
    scheme = with_coefficients("log", p, a) if kind == "log" else with_coefficients("power", a, p)
    found = terms(scheme, list(range(7)), list(range(7)))
    for h, rows in enumerate(golden[kind]):
        for i, row in enumerate(rows):
            assert torch.allclose(found[h, i, : i + 1], torch.tensor(row, dtype=torch.float64), rtol=1e-14, atol=1e-15)


def test_terms_by_hand() -> None:
    log = terms(with_coefficients("log", [2.0, 0.5], [1.0, 3.0]), [7], [7, 6, 4, 0])
    assert torch.allclose(log[0, 0], -2 * torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64).log())
    assert torch.allclose(log[1, 0], -0.5 * torch.tensor([1.0, 4.0, 10.0, 22.0], dtype=torch.float64).log())
    power = terms(with_coefficients("power", [2.0, 0.5], [0.5, 1.0]), [9], [9, 8, 5, 0])
    assert torch.allclose(power[0, 0], -2 * torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64))
    assert torch.allclose(power[1, 0], -0.5 * torch.tensor([0.0, 1.0, 4.0, 9.0], dtype=torch.float64))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_kernel(kind: str) -> None:
    """It is conditionally positive definite: its form is not negative for coefficients whose sum is 0."""
    drawn = make(kind, heads=4)
    with torch.no_grad():
        drawn.free[1] = drawn.free[1].clamp(max=3.0)  # exponents near 2 leave eigenvalues near 0
    at = [0, 1, 2, 5, 11, 12, 30]
    gram = terms(drawn, at, at, (False, False))
    centre = torch.eye(7, dtype=torch.float64) - 1 / 7
    assert torch.linalg.eigvalsh(centre @ gram @ centre).min().item() > -1e-9


def test_coefficients_start_as_in_the_release() -> None:
    """They are uniform draws: below 2 and 1 for log, below 1 and 2 for power. No draw is below 0.01."""
    for kind, bounds in (("log", (2.0, 1.0)), ("power", (1.0, 2.0))):
        for found, most in zip(make(kind, heads=2048).coefficients(), bounds, strict=True):
            assert found.min().item() == pytest.approx(0.01, rel=1e-5)
            assert 0.98 * most < found.max().item() <= most
            assert abs(found.mean().item() - most / 2) < 0.06 * most


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_stay_in_their_bounds_and_keep_a_gradient(kind: str) -> None:
    scheme = make(kind)
    with torch.no_grad():
        scheme.free.copy_(torch.tensor([[-5.0, 0.0, 3.0], [-5.0, 0.0, 5.0]]))
    r1, r2 = scheme.coefficients()
    assert r1.min().item() > 0
    assert r2.min().item() > 0
    assert kind == "log" or r2.max().item() < 2
    terms(scheme, [6], [0, 4, 6]).sum().backward()
    assert scheme.free.grad is not None
    assert torch.isfinite(scheme.free.grad).all()
    assert (scheme.free.grad != 0).all()
