"""Contextual (CoPE): terms of another implementation, and positions by hand."""

from __future__ import annotations

import math

import torch

from ape_cli import position
from ape_cli.position.contextual import Contextual
from tests.position import causal
from tests.position.golden import GOLDEN


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
