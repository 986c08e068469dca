"""Linear attention: chunks equal the quadratic form, features and the denominator stay positive, memory is linear."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ape_cli.attention import AttentionContext
from ape_cli.attention.linear import causal_sums, phi
from tests.attention.plain import kind_of, scheme_of, vectors


def quadratic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).tril() @ v


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 13])
def test_chunks_are_the_quadratic_form(n: int) -> None:
    q, k, v = vectors(1, n), vectors(2, n), vectors(3, n)
    assert torch.allclose(causal_sums(q, k, v, chunk=4), quadratic(q, k, v), atol=1e-9)


def test_features_are_positive_far_below_zero() -> None:
    x = torch.linspace(-8, 8, 101, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(phi(x), torch.nn.functional.elu(x) + 1, atol=1e-12)
    (gradient,) = torch.autograd.grad(phi(x).sum(), x)
    assert torch.allclose(gradient, x.detach().clamp(max=0).exp(), atol=1e-12)
    low = torch.tensor([-20.0, -50.0])
    assert torch.equal(torch.nn.functional.elu(low) + 1, torch.zeros(2))  # elu(x) + 1 rounds to 0 in float32
    assert (phi(low) > 0).all()


def test_the_denominator_is_not_rotated() -> None:
    """It is positive at any distance, while the numerator changes sign. Computed by hand for one query and one key."""
    scheme = scheme_of("rope")
    one = torch.ones(1, 2, 1, 8, dtype=torch.float64)
    for apart in (0, 3, 100):
        at, of = (scheme.context(torch.tensor([[p]])) for p in (2, apart + 2))
        found = kind_of("linear").attend(
            scheme, 0 * one, 0 * one, one, AttentionContext.of(scheme, at, of), 0.0
        )  # phi(0) = 1
        expected = sum(2 * math.cos(apart * 10_000 ** (-i / 4)) for i in range(4)) / 8
        assert torch.allclose(found, expected * one, atol=1e-9)
