"""RoPE: a worked example, the pairing of channels, and relative scores at large offsets."""

from __future__ import annotations

import math

import pytest
import torch

from ape_cli import attention, position
from tests.position.golden import GOLDEN


def turned(q: list[float], at: int, **options: float) -> torch.Tensor:
    scheme = position.make("rope", d_model=len(q), heads=1, **options)
    x = torch.tensor(q, dtype=torch.float64)[None, None, None]
    return scheme.rotate(x, scheme.context(torch.tensor([[at]])), "query").flatten()


def test_worked_example() -> None:
    """K = 4, position 2, angles 1 and 0.1 (base 100): [1, 0, 1, 0] -> [-0.42, 0.91, 0.98, 0.20]."""
    found = turned([1, 0, 1, 0], 2, base=100)
    expected = torch.tensor([math.cos(2), math.sin(2), math.cos(0.2), math.sin(0.2)], dtype=torch.float64)
    assert torch.allclose(found, expected, atol=1e-15)
    assert [round(v, 2) for v in found.tolist()] == [-0.42, 0.91, 0.98, 0.20]


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_both_pairings_of_other_implementations(pairing: str) -> None:
    given = GOLDEN["rope"]
    scheme = position.make("rope", d_model=8, heads=1, interleaved=pairing == "interleaved")
    x, expected = (torch.tensor(given[name], dtype=torch.float64) for name in ("x", pairing))
    context = scheme.context(torch.tensor([given["positions"]]))
    for side in ("query", "key"):
        assert torch.allclose(scheme.rotate(x[None, None], context, side)[0, 0], expected, atol=1e-12)


def test_the_pairings_differ_by_the_order_of_channels_alone() -> None:
    one, other = (position.make("rope", d_model=8, heads=1, interleaved=x) for x in (True, False))
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # in this order, the pairs (i, i + 4) are adjacent
    x, at = torch.randn(1, 1, 5, 8, dtype=torch.float64), torch.tensor([[0, 1, 2, 9, 300]])
    adjacent = one.rotate(x[..., order], one.context(at), "query")
    assert torch.allclose(other.rotate(x, other.context(at), "query")[..., order], adjacent)


def test_learned_angles_start_at_the_fixed_ones_in_each_head() -> None:
    fixed, learned = (position.make("rope", d_model=16, heads=2, learned=x).double() for x in (False, True))
    x, at = torch.randn(1, 2, 3, 8, dtype=torch.float64), torch.tensor([[0, 3, 40]])
    there = learned.rotate(x, learned.context(at), "key")
    assert torch.allclose(there, fixed.rotate(x, fixed.context(at), "key"), atol=1e-5)
    assert learned.angles.shape == (2, 4)
    there.pow(3).sum().backward()
    assert (learned.angles.grad.abs() > 0).all()


def test_heads_do_not_mix() -> None:
    """Pairs are channels of one head: a change of one head's query changes only the scores of this head."""
    scheme = position.make("rope", d_model=32, heads=4)
    context = scheme.context(torch.arange(5)[None])
    q, k = torch.randn(2, 1, 4, 5, 8, dtype=torch.float64)
    before = attention.logits(scheme, q, k, context, context)
    q[:, 2] += 1
    changed = (attention.logits(scheme, q, k, context, context) - before).abs().amax(dim=(0, 2, 3)) > 1e-9
    assert changed.tolist() == [False, False, True, False]


def test_the_base_is_followed_at_once() -> None:
    """No table is kept that would be wrong after a change of the base."""
    scheme = position.make("rope", d_model=8, heads=1)
    x, at = torch.ones(1, 1, 4, 8), torch.arange(4)[None]
    before = scheme.rotate(x, scheme.context(at), "key")
    scheme.base = 100.0
    assert not torch.allclose(scheme.rotate(x, scheme.context(at), "key"), before)
    fresh = position.make("rope", d_model=8, heads=1, base=100.0)
    assert torch.equal(scheme.rotate(x, scheme.context(at), "key"), fresh.rotate(x, fresh.context(at), "key"))
