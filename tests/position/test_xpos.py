"""xPos: a worked example, two other implementations, decay with the distance, and the range of float32."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.position.xpos import Xpos
from tests.position.draws import draw
from tests.position.golden import GOLDEN


def make(channels: int = 8, **options: float) -> Xpos:
    scheme = position.make("xpos", d_model=channels, heads=1, **options)
    assert isinstance(scheme, Xpos)
    return scheme


def scores(scheme: Xpos, q: Tensor, k: Tensor, q_at: Tensor, k_at: Tensor) -> Tensor:
    """Scores of places, [M] and [N], without the scaling by 1/sqrt(K). -> [M, N]"""
    contexts = (scheme.context(at[None], causal=True) for at in (q_at, k_at))
    return attention.logits(scheme, q, k, *contexts)[0, 0] * math.sqrt(q.shape[-1])


def test_worked_example() -> None:
    """K = 4: zeta is 0.4/1.4 = 2/7 and 0.9/1.4 = 9/14. Position 6 at scale_base 3 is their square."""
    scheme, at = make(4, scale_base=3.0), torch.tensor([[6]])
    x = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)[None, None, None]
    c, s = math.cos(6), math.sin(6)
    c2, s2 = math.cos(0.06), math.sin(0.06)
    for side, (one, other) in {"query": (4 / 49, 81 / 196), "key": (49 / 4, 196 / 81)}.items():
        expected = torch.tensor([one * c, one * s, other * c2, other * s2], dtype=torch.float64)
        assert torch.allclose(scheme.rotate(x, scheme.context(at), side).flatten(), expected, rtol=1e-14)


@pytest.mark.parametrize(("package", "tolerance"), [("rotary_embedding_torch", 2e-12), ("torchscale", 2e-6)])
def test_scores_of_other_implementations(package: str, tolerance: float) -> None:
    """They differ by 5e-13 and by 6e-7 (float32). Scores of later keys agree too, although no model sees them."""
    n = torch.arange(1, 49, dtype=torch.float64).view(1, 1, 6, 8)
    at, expected = torch.arange(6), torch.tensor(GOLDEN["xpos"][package], dtype=torch.float64)
    found = scores(make(scale_base=4.0), n.sin(), n.cos(), at, at)
    assert torch.allclose(found, expected, rtol=0, atol=tolerance)


def test_scores_fall_with_the_distance_and_are_those_of_rope_at_no_distance() -> None:
    """Without the first pair, and with a base so large that the others do not turn."""
    q = torch.tensor([0.0, 0, 1, 1, 1, 1, 1, 1], dtype=torch.float64)[None, None, None]
    here = torch.tensor([3000])
    fell = [float(scores(make(base=1e40), q, q, here, here - d)) for d in (0, 500, 1000, 3000)]
    assert math.isclose(fell[0], 6)
    assert fell == sorted(fell, reverse=True)
    assert float(scores(make(base=1e40), q, q, here, here + 500)) > 6  # a key ahead


def test_far_positions_lose_no_digits_in_float32() -> None:
    """A score at 28,000 steps is that at 8 steps, where the factors are between 1e-30 and 1e30."""
    scheme, q, k = make(), draw(1, 1, 9, 8).float(), draw(1, 1, 9, 8, seed=2).float()
    near = torch.arange(9)
    for far in (1_000, 10_000, 28_000):
        one, other = (scores(scheme, q, k, at, at) for at in (near, near + far))
        assert torch.allclose(one, other, rtol=0, atol=2e-5)


def test_positions_beyond_the_range_are_refused() -> None:
    make().context(torch.tensor([[28_000]]))
    with pytest.raises(UsageError, match=r"too far[\s\S]*40000[\s\S]*up to 28,2\d\d[\s\S]*scale_base"):
        make().context(torch.tensor([[40_000]]))
    make(scale_base=1_024.0).context(torch.tensor([[40_000]]))


def test_gradients_by_differences() -> None:
    scheme = make(4, scale_base=3.0)
    for side in ("query", "key"):
        context = scheme.context(torch.tensor([[0, 2, 7]]))
        assert torch.autograd.gradcheck(lambda x: scheme.rotate(x, context, side), draw(2, 1, 3, 4).requires_grad_())  # noqa: B023


def test_it_is_refused_where_keys_may_be_ahead() -> None:
    for role in ("encoder", "cross"):
        with pytest.raises(UsageError, match=r"only in causal attention: scores of keys ahead"):
            attention.check_role(Xpos, role)
    attention.check_role(Xpos, "decoder")


def test_float16_is_refused() -> None:
    scheme = position.make("xpos", 16, 2)
    with pytest.raises(UsageError, match="float16"):
        scheme.rotate(torch.ones(1, 2, 3, 8, dtype=torch.float16), scheme.context(torch.arange(3)[None]), "key")
