"""Shear: operators by hand, scores on two more channels, and terms of another implementation."""

from __future__ import annotations

import torch

from ape_cli import attention, position
from ape_cli.position.shear import Shear
from tests.position.golden import GOLDEN

H, K = 8, 4


def make(heads: int = H) -> Shear:
    scheme = position.make("shear", d_model=K * heads, heads=heads)
    assert isinstance(scheme, Shear)
    return scheme


def formula(scheme: position.Scheme, head: int, i: int, j: int) -> float:
    """The term of a query at i and a key at j, if the number of heads is a power of two."""
    return (j - i) * 2 ** (-8 * (head + 1) / scheme.shape.heads)


def vectors(seed: int, count: int) -> torch.Tensor:
    return torch.randn(2, H, count, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_it_is_a_unipotent_representation_of_the_integers() -> None:
    """[x + y] = [x] [y] on each side, the sides are inverse to each other, and ([x] - I)^2 = 0: exactly."""
    scheme = make()
    x, y = torch.tensor([[0, 1, 7, 500, 10_000]]), torch.tensor([[3, 0, 9, 1, 4000]])
    query, key = scheme.representation(x, "query"), scheme.representation(x, "key")
    for side, one in (("query", query), ("key", key)):
        both = scheme.representation(x + y, side)  # type: ignore[arg-type]
        assert torch.equal(one @ scheme.representation(y, side), both)  # type: ignore[arg-type]
        nilpotent = one - torch.eye(2, dtype=torch.float64)
        assert torch.equal(nilpotent @ nilpotent, torch.zeros_like(nilpotent))
        assert torch.equal(torch.linalg.det(one), torch.ones(1, H, 5, dtype=torch.float64))
    identity = torch.eye(2, dtype=torch.float64).expand_as(query)
    assert torch.equal(query.mT @ key, identity)
    assert not torch.equal(query.mT @ query, identity)


def test_scores_are_those_of_two_more_channels() -> None:
    """Queries get the constants sqrt(K) and 0, keys 0 and 1, and the operators of their positions."""
    scheme = make()
    at = torch.tensor([[0, 1, 2, 5, 11], [3, 4, 50, 51, 400]])
    q, k = vectors(1, 5), vectors(2, 5)
    context = scheme.context(at, causal=True)
    found = attention.logits(scheme, q, k, context, context)
    q_more, k_more = (torch.zeros(2, H, 5, 2, dtype=torch.float64) for _ in range(2))
    q_more[..., 0], k_more[..., 1] = K**0.5, 1
    q_more = (scheme.representation(at, "query") @ q_more[..., None])[..., 0]
    k_more = (scheme.representation(at, "key") @ k_more[..., None])[..., 0]
    longer = torch.cat([q, q_more], dim=-1) @ torch.cat([k, k_more], dim=-1).mT / K**0.5
    assert torch.allclose(found, longer, rtol=1e-14, atol=1e-14)


def test_terms_of_another_implementation() -> None:
    """Of ALiBi in a decoder. There is no difference."""
    rows = GOLDEN["shear"]["bias"]
    for scheme in (make(4), position.make("alibi", d_model=16, heads=4, causal=True)):
        context = scheme.context(torch.arange(6)[None], causal=True)
        found = scheme.bias(torch.zeros(1, 4, 6, 4, dtype=torch.float64), context, context)
        assert found is not None
        for h in range(4):
            assert [found[0, h, i, : i + 1].tolist() for i in range(6)] == rows[h]
