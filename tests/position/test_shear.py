"""Shear: operators by hand, and terms of another implementation."""

from __future__ import annotations

import torch

from ape_cli import position
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


def test_terms_of_another_implementation() -> None:
    """Of ALiBi in a decoder. There is no difference."""
    rows = GOLDEN["shear"]["bias"]
    for scheme in (make(4), position.make("alibi", d_model=16, heads=4, causal=True)):
        context = scheme.context(torch.arange(6)[None], causal=True)
        found = scheme.bias(torch.zeros(1, 4, 6, 4, dtype=torch.float64), context, context)
        assert found is not None
        for h in range(4):
            assert [found[0, h, i, : i + 1].tolist() for i in range(6)] == rows[h]
