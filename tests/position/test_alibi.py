"""ALiBi: slopes by hand and from another implementation, any number of heads, a penalty in both directions."""

from __future__ import annotations

import torch

from ape_cli import attention, position
from ape_cli.position.alibi import Alibi
from tests.position.golden import GOLDEN


def make(heads: int) -> Alibi:
    scheme = position.make("alibi", d_model=8 * heads, heads=heads)
    assert isinstance(scheme, Alibi)
    return scheme


def test_slopes_by_hand() -> None:
    assert make(8).slopes().tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert torch.allclose(make(3).slopes(), 2.0 ** torch.tensor([-8 / 3, -16 / 3, -8], dtype=torch.float64))


def test_slopes_of_another_implementation() -> None:
    for heads, slopes in GOLDEN["alibi"]["slopes"].items():
        assert torch.allclose(make(int(heads)).slopes(), torch.tensor(slopes, dtype=torch.float64), rtol=1e-6)


def test_penalty_by_hand() -> None:
    scheme = make(2)
    q = torch.zeros(1, 2, 3, 8, dtype=torch.float64)
    context = scheme.context(torch.tensor([[0, 1, 5]]))
    apart = torch.tensor([[0, 1, 5], [1, 0, 4], [5, 4, 0]])
    found = attention.logits(scheme, q, q, context, context)
    assert torch.equal(found[0, 0], -apart / 16)
    assert torch.equal(found[0, 1], -apart / 256)
