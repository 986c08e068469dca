"""Contextual (CoPE): terms of another implementation, positions by hand and by loops, and special cases."""

from __future__ import annotations

import math

import torch

from ape_cli import position
from ape_cli.position.contextual import Contextual
from tests.position import causal
from tests.position.golden import GOLDEN


def make(**options: int) -> Contextual:
    """The scheme, with vectors that are large enough to matter."""
    scheme = causal.scheme_of("contextual", **options)
    assert isinstance(scheme, Contextual)
    with torch.no_grad():
        scheme.vectors.mul_(50.0)
    return scheme


def test_terms_of_another_implementation() -> None:
    """Theirs leave out the scaling by 1/sqrt(K). The largest difference is 5e-11, because 12 digits are stored."""
    theirs = GOLDEN["contextual"]
    q, k = (torch.tensor(theirs[name], dtype=torch.float64).transpose(0, 1)[None] for name in ("q", "k"))
    scheme = position.make("contextual", d_model=8, heads=2, max_size=4).double()
    assert isinstance(scheme, Contextual)
    with torch.no_grad():
        scheme.vectors.copy_(torch.tensor(theirs["e"], dtype=torch.float64))
    found = (causal.scores(scheme, q, k, None) - (q @ k.mT / math.sqrt(4)).tril()) * math.sqrt(4)
    assert torch.allclose(found[0], torch.tensor(theirs["terms"], dtype=torch.float64), rtol=0, atol=1e-10)


def test_positions_by_hand() -> None:
    """With keys of zero each gate is 1/2, so the key n steps behind is at position (n + 1) / 2."""
    scheme = position.make("contextual", 2, 1, max_size=2).double()
    assert isinstance(scheme, Contextual)
    with torch.no_grad():
        scheme.vectors.copy_(torch.tensor([[1.0, 0.0], [3.0, 0.0], [7.0, 0.0]]))
    q, k = torch.tensor([[[[math.sqrt(2), 5.0]] * 6]], dtype=torch.float64), torch.zeros(1, 1, 6, 2).double()
    found = causal.scores(scheme, q, k, None)[0, 0]
    expected = [7.0, 7.0, 7.0, 5.0, 3.0, 2.0]  # at 3, 2.5 (clipped), 2, 1.5, 1, 0.5
    assert torch.allclose(found[-1], torch.tensor(expected).double())
    assert torch.allclose(found[0], torch.tensor([2.0, 0, 0, 0, 0, 0]).double())


def test_scores_derived_again() -> None:
    """(q k + q e[p]) / sqrt(K), with p the sum of sigmoid(q k / sqrt(K)) from the key up to the query."""
    scheme = make(max_size=9)
    q, k = causal.qk()
    found, e = causal.scores(scheme, q, k, None), scheme.vectors.detach()
    clipped = 0
    for h in range(causal.H):
        for i in (0, 1, 12, 74):
            for j in range(0, i + 1, 2):
                gates = [torch.sigmoid(q[1, h, i] @ k[1, h, s] / math.sqrt(causal.K)) for s in range(j, i + 1)]
                p = min(float(sum(gates)), 9.0)
                clipped += p == 9.0
                below, above = math.floor(p), math.ceil(p)
                vector = e[below] + (p - below) * (e[above] - e[below])
                expected = q[1, h, i] @ (k[1, h, j] + vector) / math.sqrt(causal.K)
                assert torch.isclose(found[1, h, i, j], expected, atol=1e-12)
    assert 0 < clipped < 80
