"""Kernels: values by hand, their relation to the dot product, the precision of distances, and units."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.attention import AttentionContext, boxcar, epanechnikov, euclidean, squared_euclidean
from ape_cli.attention._kernels import Kernel, distances
from tests.attention.plain import H, K, kind_of, scheme_of, vectors

KERNELS = [name for name in attention.names() if issubclass(attention.load(name), Kernel)]
RAW = {m.__name__.rpartition(".")[2]: m.scores for m in (euclidean, squared_euclidean, epanechnikov, boxcar)}


def one(*x: float) -> Tensor:
    return torch.tensor([[[x]]], dtype=torch.float64)  # [1, 1, 1, K]


def test_squared_euclidean_is_the_dot_product_up_to_key_norms() -> None:
    """softmax(-|q - k|^2 / (2 sqrt(K))) = softmax((q k - |k|^2 / 2) / sqrt(K)). Keys of one norm make it `dot`."""
    scheme = scheme_of("rope")
    at = scheme.context(torch.arange(1, 8)[None])
    q, k, v, context = vectors(1, 7), vectors(2, 7), vectors(3, 7), AttentionContext.of(scheme, at, at)
    found = kind_of("squared-euclidean").attend(scheme, q, k, v, context, 0.0)
    norms = k.square().sum(-1)[:, :, None] / (2 * K**0.5)
    assert torch.allclose(found, (attention.logits(scheme, q, k, at, at) - norms).softmax(-1) @ v, atol=1e-9)
    even = k / k.norm(dim=-1, keepdim=True)
    one, other = (kind_of(name).attend(scheme, q, even, v, context, 0.0) for name in ("squared-euclidean", "dot"))
    assert torch.allclose(one, other, atol=1e-9)


def test_distances_keep_their_digits_in_float32() -> None:
    """For close vectors far from the origin, differences are exact, but expanded squares would cancel."""
    torch.manual_seed(1)
    q, k = (1000 + 0.01 * torch.randn(2, H, n, 64) for n in (40, 50))
    exact = (q.double()[:, :, :, None] - k.double()[:, :, None]).square().sum(-1).sqrt()
    assert ((distances(q, k) - exact).abs() / exact).max() < 1e-5
    assert ((squared_euclidean.scores(q, k) + exact**2 / 2).abs() / exact**2).max() < 1e-5
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(distances(q, k), distances(q, k).float())
        assert ((distances(q, k) - exact).abs() / exact).max() < 1e-5
    assert torch.equal(distances(q, q).diagonal(dim1=-2, dim2=-1), torch.zeros(2, H, 40))


@pytest.mark.parametrize("name", RAW)
def test_the_gradient_at_distance_0_is_a_number(name: str) -> None:
    q = (vectors(1, 4) / 8).requires_grad_()
    k = (vectors(1, 4) / 8).requires_grad_()  # equal to q
    found = RAW[name](q, k)
    if name == "boxcar":
        assert not found.requires_grad
        assert "gradient" in attention.load(name).lacks
        return
    found.sum().backward()
    assert q.grad is not None
    assert k.grad is not None
    assert q.grad.isfinite().all()
    assert q.grad.abs().max() > 0
    assert torch.allclose(q.grad, k.grad, atol=1e-12)  # because the sum is symmetric in q and k


@pytest.mark.parametrize("name", KERNELS)
def test_scores_are_alive_at_initialisation(name: str) -> None:
    """With channels of variance 1 and heads of size 64, scores are in the support and differ, and no key dominates."""
    torch.manual_seed(1)
    kind = attention.make(name)
    assert isinstance(kind, Kernel)
    q, k = torch.randn(2, 1, 1, 200, 64, dtype=torch.float64)
    scores = kind.kernel(q / kind.unit(64), k / kind.unit(64))
    assert torch.equal(scores, RAW[name.replace("-", "_")](q / kind.unit(64), k / kind.unit(64)))
    if name in ("epanechnikov", "boxcar"):
        assert (scores > 0).double().mean() > 0.99
        assert (RAW[name](q, k) == 0).all()  # in a unit of 1 all scores would be 0, without a gradient
        assert kind.unit(64) == 16
    if "gradient" not in kind.lacks:
        assert 0.01 < float(scores.std()) < 2
        assert float(scores.softmax(-1).max()) < 0.5
