"""Forget: weights of another implementation, sums of log-gates by hand, and numerical care."""

from __future__ import annotations

import math

import torch

from ape_cli import position
from ape_cli.position.forget import Gates
from tests.position import causal
from tests.position.golden import GOLDEN


def test_weights_of_another_implementation() -> None:
    """Theirs are float32; the largest difference is 1e-7."""
    theirs = GOLDEN["forget"]
    q, k = (torch.tensor(theirs[name], dtype=torch.float64).transpose(0, 1)[None] for name in ("q", "k"))
    log_gates = torch.tensor(theirs["g"], dtype=torch.float64)[None]
    scheme = position.make("forget", d_model=8, heads=2)
    found = causal.scores(scheme, q, k, log_gates)
    ahead = torch.ones(9, 9, dtype=torch.bool).triu(1)
    weights = found.masked_fill(ahead, -math.inf).softmax(-1)[0]
    assert torch.allclose(weights, torch.tensor(theirs["weights"], dtype=torch.float64), rtol=0, atol=3e-7)


def test_gates_of_one_half_by_hand() -> None:
    """Each step between key and query costs log 2. The gate of the key itself does not count."""
    zeros = torch.zeros(1, 1, 4, 2)
    found = causal.scores(position.make("forget", 2, 1), zeros, zeros, torch.full((1, 4, 1), math.log(0.5)))
    steps = torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0]])
    assert torch.allclose(found[0, 0], -steps * math.log(2.0))


def test_extreme_gates_stay_finite() -> None:
    """Gates that are 0 in float32 have finite logarithms and gradients."""
    scheme = causal.scheme_of("forget", torch.float32)
    gates = scheme.layers["decoder_0"]
    assert isinstance(gates, Gates)
    with torch.no_grad():
        gates.project.bias.fill_(-1e4)
    (q, k), x = causal.qk(torch.float32), causal.tokens(torch.float32)
    causal.scores(scheme, q, k, causal.content_of(scheme, x)).sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in scheme.parameters())


def test_a_long_sum_keeps_its_digits_in_bfloat16() -> None:
    """After 3,000 gates of 0.9, whose sum is -316, a running sum in bfloat16 would be wrong by whole steps."""
    log_gates = torch.full((1, 3000, 1), math.log(0.9))
    q = torch.zeros(1, 1, 2, 2, dtype=torch.bfloat16)
    k = torch.zeros(1, 1, 3000, 2, dtype=torch.bfloat16)
    scheme = position.make("forget", 2, 1)
    with torch.autocast("cpu", torch.bfloat16):
        found = scheme.logits(q, k, log_gates, causal.link_of(scheme, 3000))
    assert found is not None
    expected = torch.tensor([3.0, 2.0, 1.0, 0.0]) * math.log(0.9)
    assert torch.allclose(found[0, 0, -1, -4:].float(), expected, atol=2e-3)


def test_weights_start_as_in_the_release() -> None:
    torch.manual_seed(1)
    project = Gates(2048, 8).project.requires_grad_(False)
    assert abs(float(project.weight.std()) - 0.02) < 1e-3
    assert not project.bias.any()
