"""PoPE: scores of another implementation and by hand, phases that do not depend on content, and numerical care."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ape_cli import attention, position
from ape_cli.position.pope import Pope
from tests.position.draws import draw
from tests.position.golden import GOLDEN

D, H, K = 12, 3, 4


def make(d_model: int = D, heads: int = H, **options: Any) -> Pope:
    generator = torch.Generator().manual_seed(1)
    scheme = position.make("pope", d_model=d_model, heads=heads, generator=generator, **options)
    assert isinstance(scheme, Pope)
    return scheme.double()


def with_phases(phases: list[list[float]]) -> Pope:
    scheme = make(len(phases) * len(phases[0]), len(phases))
    with torch.no_grad():
        scheme.free.copy_(torch.tensor(phases))
    return scheme


def scores(scheme: Pope, q: torch.Tensor, k: torch.Tensor, at: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """Those of attention between decoder and encoder. -> [B, H, M, N]"""
    return attention.logits(scheme, q, k, scheme.context(at, causal=True), scheme.context(of))


def vectors(seed: int, rows: int, count: int) -> torch.Tensor:
    return draw(rows, H, count, K, seed=seed)


def test_scores_of_another_implementation() -> None:
    """Also those of phases outside of their bounds. The greatest difference is 2e-16."""
    golden = GOLDEN["pope"]
    q, k = (torch.tensor(golden[name], dtype=torch.float64)[None] for name in ("q", "k"))
    at = torch.tensor(golden["positions"])[None]
    found = scores(with_phases(golden["bias"]), q, k, at, at)[0]
    assert torch.allclose(found, torch.tensor(golden["scores"], dtype=torch.float64), rtol=0, atol=1e-14)


def test_scores_by_hand() -> None:
    """The magnitude of 0 is log 2. The two channels turn by 1 and by 1/100 for each step."""
    zero = torch.zeros(1, 1, 4, 2, dtype=torch.float64)
    found = scores(make(2, 1), zero[:, :, :1], zero, torch.tensor([[3]]), torch.tensor([[3, 4, 0, 103]]))
    expected = [math.log(2) ** 2 * (math.cos(d) + math.cos(d / 100)) / math.sqrt(2) for d in (0, 1, -3, 100)]
    assert found.flatten().tolist() == pytest.approx(expected)
    quarter = with_phases([[-math.pi / 2, -math.pi]])
    found = scores(quarter, zero[:, :, :1], zero, torch.tensor([[3]]), torch.tensor([[3, 4, 0, 103]]))
    expected = [math.log(2) ** 2 * (math.sin(d) - math.cos(d / 100)) / math.sqrt(2) for d in (0, 1, -3, 100)]
    assert found.flatten().tolist() == pytest.approx(expected)


def test_the_start_of_the_phase() -> None:
    assert not make().free.any()
    assert not make().unique
    drawn = make(4096, 2, init="uniform")
    assert drawn.unique
    assert -2 * math.pi < drawn.free.min().item() < -6.27
    assert -0.01 < drawn.free.max().item() < 0
    assert abs(drawn.free.mean().item() + math.pi) < 0.1


def test_the_best_offset_of_a_channel_does_not_depend_on_content() -> None:
    """It is -delta / theta, here 30 steps ahead. The best offset of a pair of RoPE's channels depends on content."""
    scheme, rope = with_phases([[0.0, -0.3]]), position.make("rope", 2, 1, base=1.1).double()
    at, of = torch.tensor([[50]]), torch.arange(101)[None]
    best, of_rope = set(), set()
    for seed in range(20):
        q, k = draw(2, 1, 1, 1, 2, seed=seed)
        turned = attention.logits(rope, q, k.expand(-1, -1, 101, -1), rope.context(at), rope.context(of))
        of_rope.add(int(turned.argmax()))
        q[..., 0] = -1e3  # the magnitude of the first channel is 0
        best.add(int(scores(scheme, q, k.expand(-1, -1, 101, -1), at, of).argmax()))
    assert best == {80}
    assert len(of_rope) > 2


def test_a_shift_of_all_positions_changes_nothing() -> None:
    """By whole and by real numbers of steps, ahead and behind; for far positions also in float32."""
    at, of = torch.tensor([[5, 6, 40]]), torch.tensor([[7, 0, 41, 1]])
    q, k = vectors(1, 1, 3), vectors(2, 1, 4)
    scheme = make(init="uniform")
    found = scores(scheme, q, k, at, of)
    for shift in (1, 1000, 0.5):
        assert torch.allclose(scores(scheme, q, k, at + shift, of + shift), found, atol=1e-11)
    far = scores(scheme.float(), q.float(), k.float(), at + 1_000_000, of + 1_000_000)
    assert torch.allclose(far.double(), found, atol=1e-5)


def test_gradients_by_differences() -> None:
    scheme, at = make(init="uniform"), torch.tensor([[0, 2, 5]])
    q, k = (vectors(seed, 1, 3).requires_grad_() for seed in (1, 2))
    inputs = q, k, *scheme.parameters()
    assert torch.autograd.gradcheck(lambda q, k, *_: scores(scheme, q, k, at, at), inputs)
