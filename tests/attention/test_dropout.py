"""Dropout masks: their distribution, the gradient, and the state of the random generator."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ape_cli.attention._layers import drop, drop_relu, mask


def drawn(p: float, *shape: int, seed: int = 1) -> Tensor:
    """Draws a mask and returns a bool tensor that is True where an element is dropped."""
    torch.manual_seed(seed)
    return mask(torch.Size(shape), p, torch.float64)[0] == 0


@pytest.mark.parametrize("p", [0.1, 0.15, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_for(p: float) -> None:
    """The share is within four standard deviations, over all elements and over each quarter of the random words."""
    found = drawn(p, 1000, 1000)
    for part in (found, *(found.flatten()[i::4] for i in range(4))):
        assert abs(part.double().mean() - p) < 4 * math.sqrt(p * (1 - p) / part.numel()) + 2**-17


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_elements_are_dropped_independently(p: float) -> None:
    """Pairs at several distances are independent, both within a random word and across words."""
    found = drawn(p, 1_000_000).double()
    for lag in (1, 2, 3, 4, 5, 8, 512, 624 * 2, 624 * 4):
        one, other = found[:-lag], found[lag:]
        both = (one * other).mean()
        spread = math.sqrt(p * p * (1 - p * p) / len(one))
        assert abs(both - p * p) < 5 * spread + 2**-15, lag
    runs = found.unfold(0, 8, 8).sum(1).long().bincount(minlength=9).double()
    expected = torch.tensor([math.comb(8, k) * p**k * (1 - p) ** (8 - k) for k in range(9)]) * runs.sum()
    often = expected > 5
    chi_square = ((runs - expected).square() / expected)[often].sum()
    assert chi_square < 35, "of at most 8 degrees of freedom: one in 30,000"


@pytest.mark.parametrize("p", [1e-300, 1 - 2**-16, 1 - 2**-17, 0.99999999, math.nextafter(1, 0)])
def test_probabilities_next_to_0_and_1(p: float) -> None:
    """They are rounded to the smallest and the largest that are neither 0 nor 1, so the mean is kept."""
    torch.manual_seed(1)
    found = drop(torch.ones(2**22, dtype=torch.float64), p)
    dropped = 2**-16 if p < 0.5 else 1 - 2**-16
    assert set(found.unique().tolist()) == {0.0, 1 / (1 - dropped)}
    assert abs(found.mean() - 1) < 4 * math.sqrt(dropped / (1 - dropped) / found.numel())
    out = drop(torch.ones(8, requires_grad=True), p)
    out.sum().backward()
    assert out.isfinite().all()


def test_it_is_its_own_derivative() -> None:
    x = torch.randn(7, 9, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(5)
    out = drop(x, 0.3)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.allclose(out, x * grad, rtol=0, atol=0)
    assert set(grad.unique().tolist()) == {0.0, 2**16 / (2**16 - round(0.3 * 2**16))}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_dropout_after_a_relu(dtype: torch.dtype) -> None:
    """It is the composition, with the same mask and the same gradient. Zeros and dropped elements have none."""
    x = torch.randn(60, 50, generator=torch.Generator().manual_seed(1)).to(dtype)
    x[0] = 0.0
    upstream = torch.randn(60, 50, generator=torch.Generator().manual_seed(2)).to(dtype)

    def both(apply: Callable[[Tensor], Tensor]) -> list[Tensor]:
        torch.manual_seed(5)
        given = x.clone().requires_grad_()
        out = apply(given)
        return [out, *torch.autograd.grad(out, given, upstream)]

    for found, wanted in zip(both(lambda x: drop_relu(x, 0.3)), both(lambda x: drop(torch.relu(x), 0.3)), strict=True):
        assert torch.equal(found, wanted)
    torch.manual_seed(5)
    assert torch.equal(drop_relu(x, 0.3, training=False), torch.relu(x))


def test_the_generator_s_state_says_what_comes() -> None:
    """A resumed run needs this. It also holds for counts that do not fill a random word."""
    x = torch.ones(13)
    drop(x, 0.5)
    state = torch.get_rng_state()
    one = [drop(x, 0.5) for _ in range(3)]
    torch.set_rng_state(state)
    assert all(torch.equal(a, drop(x, 0.5)) for a in one)
    assert not torch.equal(one[0], one[1])


def test_bfloat16_rounds_the_product_once() -> None:
    """A mask that holds the scale in bfloat16 would shift the mean."""
    x = torch.randn(100, 100, generator=torch.Generator().manual_seed(1)).bfloat16()
    torch.manual_seed(5)
    out = drop(x, 0.3)
    torch.manual_seed(5)
    assert torch.equal(out, drop(x.float(), 0.3).bfloat16())
