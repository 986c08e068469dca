"""Path (PaTH): weights of another implementation, products of matrices by hand and by loops, and special cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from ape_cli import position
from ape_cli.position.path import Householder, through_path
from tests.position import causal
from tests.position.golden import GOLDEN


def module(scheme: position.Scheme) -> Householder:
    found = scheme.layers["decoder_0"]
    assert isinstance(found, Householder)
    return found


def vectors() -> torch.Tensor:
    """v = sqrt(beta) w of random unit vectors, with random beta between 0 and 2. -> [B, H, N, K]"""
    generator = torch.Generator().manual_seed(8)
    drawn = torch.randn(causal.B, causal.H, causal.N, causal.K, dtype=torch.float64, generator=generator)
    betas = 2 * torch.rand(drawn.shape[:-1], dtype=torch.float64, generator=generator)
    return functional.normalize(drawn, dim=-1) * betas.sqrt()[..., None]


def matrices(v: torch.Tensor) -> torch.Tensor:
    """H = I - v v' of each vector. [..., K] -> [..., K, K]"""
    return torch.eye(v.shape[-1], dtype=v.dtype) - v[..., :, None] * v[..., None, :]


def by_loops(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q_i' H_i ... H_(j+1) k_j, one matrix after the other; 0 for keys ahead. -> [B, H, M, N]"""
    m, n = q.shape[2], k.shape[2]
    found = torch.zeros(*q.shape[:3], n, dtype=q.dtype)
    for at in range(m):
        carried = q[:, :, at]
        for j in range(n - m + at, -1, -1):
            found[:, :, at, j] = (carried * k[:, :, j]).sum(-1)
            carried = (carried[..., None, :] @ matrices(v[:, :, j]))[..., 0, :]
    return found


def test_weights_of_another_implementation() -> None:
    """Theirs are float32; the largest difference is 2e-7."""
    theirs = GOLDEN["path"]
    q, k, w = (torch.tensor(theirs[name], dtype=torch.float64).transpose(0, 1)[None] for name in ("q", "k", "w"))
    beta = torch.tensor(theirs["beta"], dtype=torch.float64)
    content = w.transpose(1, 2) * beta.sqrt()[None, ..., None]
    found = causal.scores(position.make("path", d_model=8, heads=2), q, k, content)
    weights = found.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf).softmax(-1)[0]
    assert torch.allclose(weights, torch.tensor(theirs["weights"], dtype=torch.float64), rtol=0, atol=5e-7)


def test_weights_of_another_implementation_with_convolution_and_gates() -> None:
    """The projection of the layer is replaced by its output.

    They add log-gates before the scaling by 1/sqrt(K), and 1e-6 to squared lengths; the largest difference is 3e-6.
    """
    theirs = {name: torch.tensor(value) for name, value in GOLDEN["path_forget"].items() if name != "how"}
    scheme = position.make("path", d_model=8, heads=2, rank=8, convolution=3, forget=True)
    key = scheme.attach("decoder", 0)
    given = module(scheme)
    assert given.convolution is not None
    given.convolution.load_state_dict({"weight": theirs["convolution"]})
    given.w = torch.nn.Identity()  # type: ignore[assignment]
    q, k = (theirs[name].double().transpose(0, 1)[None] for name in ("q", "k"))
    v = scheme.double().content(key, theirs["w"].double()[None])
    assert v is not None
    v = functional.normalize(v[..., :-1], dim=-1) * theirs["beta"].double().sqrt()[None, ..., None]
    found = causal.scores(scheme, q, k, torch.cat([v, theirs["g"].double()[None, ..., None] / 2], dim=-1))
    weights = found.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), -math.inf).softmax(-1)[0]
    assert torch.allclose(weights, theirs["weights"].double(), rtol=0, atol=5e-6)


def test_the_options_leave_the_other_weights_as_they_are() -> None:
    plain, full = (causal.scheme_of("path", **options) for options in ({}, {"convolution": 3, "forget": True}))
    assert [name for name, _ in module(plain).named_parameters()] == [
        "w.0.weight",
        "w.1.weight",
        "beta.weight",
        "beta.bias",
    ]
    for name, weight in module(plain).named_parameters():
        assert torch.equal(weight, module(full).get_parameter(name))


def test_two_reflections_by_hand() -> None:
    """At beta = 2, w = (1, 0) turns the sign of the first channel, and w = (1, 1) / sqrt(2) maps (a, b) to (-b, -a)."""
    v = torch.tensor([[9.0, 9.0], [math.sqrt(2), 0.0], [1.0, 1.0]]).double()[None, None]
    q, k = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]).double(), torch.tensor([[3.0, 5.0]] * 3).double()
    found = through_path(q[None, None], k[None, None], v)[0, 0, 2]
    # (1, 0) at the query's own place; carried over the query's matrix, (0, -1); over the first one as well, (0, -1)
    assert torch.allclose(found, torch.tensor([-5.0, -5.0, 3.0]).double())


@pytest.mark.parametrize("asked", [75, 40, 3, 1])
def test_products_derived_again(asked: int) -> None:
    """Blocks of any size give what a loop over tokens gives, whether or not they divide the number of tokens."""
    (q, k), v = causal.qk(), vectors()
    q = q[:, :, -asked:]
    expected = by_loops(q, k, v)
    for block in (1000, 75, 38, 32, 16, 7):
        found = through_path(q, k, v, block)
        assert bool(found.isfinite().all())
        assert torch.allclose(found.tril(causal.N - asked), expected, atol=1e-12)


def test_vectors_of_a_layer() -> None:
    """w is a unit vector for each head, and beta = 2 sigmoid(.) its squared length, about 1 at the start."""
    scheme = causal.scheme_of("path", rank=3)
    x, given = causal.tokens(), module(scheme)
    v = causal.content_of(scheme, x)
    assert v is not None
    assert v.shape == (causal.B, causal.N, causal.H, causal.K)
    beta = 2 * torch.sigmoid(x @ given.beta.weight.T + given.beta.bias)
    assert torch.allclose(v.square().sum(-1), beta)
    assert bool((beta - 1).abs().max() < 0.3)
    assert int(torch.linalg.matrix_rank(given.w[1].weight @ given.w[0].weight)) == 3  # type: ignore[operator]


def test_extreme_betas_stay_finite() -> None:
    """Betas that are 0 or 2 in float32 have finite scores and gradients."""
    for bias in (-1e4, 1e4):
        scheme = causal.scheme_of("path", torch.float32)
        with torch.no_grad():
            module(scheme).beta.bias.fill_(bias)
        (q, k), x = causal.qk(torch.float32), causal.tokens(torch.float32)
        causal.scores(scheme, q, k, causal.content_of(scheme, x)).sum().backward()
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in scheme.parameters())
