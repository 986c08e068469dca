"""FIRE: another implementation, the formula in loops, distances that are scaled to the position of the query."""

from __future__ import annotations

import math

import pytest
import torch

from ape_cli import attention, position
from ape_cli.position.fire import Fire
from tests.position.golden import GOLDEN


def make(**options: float) -> Fire:
    scheme = position.make("fire", d_model=16, heads=2, generator=torch.Generator().manual_seed(1), **options)
    assert isinstance(scheme, Fire)
    return scheme.double()


def terms(scheme: Fire, queries: list[int], keys: list[int], causal: tuple[bool, bool] = (True, True)) -> torch.Tensor:
    """The scores of zero vectors. -> [H, M, N]"""
    q_context = scheme.context(torch.tensor([queries]), causal=causal[0])
    k_context = scheme.context(torch.tensor([keys]), causal=causal[1])
    q, k = (torch.zeros(1, 2, len(at), 8, dtype=scheme.c.dtype) for at in (queries, keys))
    return attention.logits(scheme, q, k, q_context, k_context)[0]


def formula(scheme: Fire, head: int, i: float, j: float) -> float:
    """The term of a query at i and a key at j, from its definition."""
    c, threshold = scheme.c.item(), scheme.multiplier.item() * scheme.initial

    def psi(x: float) -> float:
        return math.log(c * x + 1)

    x = psi(abs(i - j)) / (psi(max(threshold, i, j)) + 1e-6)
    hidden = [max(w * x + b, 0.0) for w, b in zip(scheme.w.tolist(), scheme.b.tolist(), strict=True)]
    weighted = [w * value for w, value in zip(scheme.out_w[head].tolist(), hidden, strict=True)]
    return sum(weighted) + scheme.out_b[head].item()


def test_terms_of_another_implementation() -> None:
    """In float32. The greatest difference is 2e-7. Rows on both sides of the threshold, 4.5 steps, are compared."""
    golden = GOLDEN["fire"]
    scheme = make(width=4, c=golden["c"], threshold=golden["threshold"]).float()
    weights = {"multiplier": "multiplier", "w": "w1", "b": "b1", "out_w": "w2", "out_b": "b2"}
    scheme.load_state_dict(
        {"c": torch.tensor(golden["c"])} | {own: torch.tensor(golden[other]) for own, other in weights.items()}
    )
    found = terms(scheme, list(range(12)), list(range(12)))
    for h, rows in enumerate(golden["bias"]):
        for i, row in enumerate(rows):
            assert torch.allclose(found[h, i, : i + 1], torch.tensor(row), rtol=0, atol=3e-7)


def test_weights_start_as_those_of_linear_layers() -> None:
    """Uniform up to 1 / sqrt(inputs): 1 input of the hidden units, 16 of the output."""
    scheme = position.make("fire", d_model=512, heads=64, generator=torch.Generator().manual_seed(1), width=16)
    for weight, bound in ((scheme.w, 1.0), (scheme.b, 1.0), (scheme.out_w, 0.25), (scheme.out_b, 0.25)):
        assert 0.7 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("causal", [(False, False), (True, True), (True, False)])
def test_the_formula_in_every_part(causal: tuple[bool, bool]) -> None:
    """For keys ahead of the query, the larger of the two positions is the divisor, so that no argument exceeds 1."""
    scheme = make(threshold=5.0, c=0.3)
    queries, keys = [0, 1, 4, 9, 30], [0, 2, 5, 6, 31, 32, 90]
    found = terms(scheme, queries, keys, causal)
    expected = [[[formula(scheme, h, i, j) for j in keys] for i in queries] for h in range(2)]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-12)
    ratio = scheme.ratio(torch.tensor(queries)[:, None], torch.tensor(keys))
    assert 0 <= ratio.min().item() <= ratio.max().item() <= 1


def test_a_ratio_by_hand() -> None:
    """With c = 1: psi(3) = log 4 and psi(15) = log 16, so the ratio is 1/2 up to the constant of the source."""
    scheme = make(threshold=4.0, c=1.0)
    assert scheme.ratio(torch.tensor(15), torch.tensor(12)).item() == pytest.approx(0.5, abs=1e-6)
    assert scheme.ratio(torch.tensor(3), torch.tensor(0)).item() == pytest.approx(math.log(4) / math.log(5), abs=1e-6)


def test_the_farthest_key_is_the_same_at_every_length() -> None:
    """Beyond the threshold the divisor is the query's own position, so the first key gets f(1)."""
    scheme = make(threshold=8.0)
    found = terms(scheme, [8, 20, 500, 10_000], [0])
    assert torch.allclose(found, found[:, :1].expand_as(found), atol=1e-6)


def test_only_below_the_threshold_does_the_distance_decide() -> None:
    scheme = make(threshold=50.0)
    assert not scheme.relative
    near, far = terms(scheme, [10, 40], [7, 37]), terms(scheme, [100, 400], [97, 397])
    assert torch.allclose(near[:, 0, 0], near[:, 1, 1], atol=1e-12)
    assert not torch.allclose(far[:, 0, 0], far[:, 1, 1], atol=1e-4)


def test_gradients_of_c_and_of_the_threshold() -> None:
    """They agree with differences of the term itself."""
    scheme = make(threshold=20.0, c=0.4)
    terms(scheme, [3, 9, 15], [0, 2, 8]).sum().backward()
    for parameter in (scheme.c, scheme.multiplier):
        gradient, step, start, found = parameter.grad, 1e-6, parameter.item(), []
        for changed in (start + step, start - step, start):
            with torch.no_grad():
                parameter.fill_(changed)
                found.append(float(terms(scheme, [3, 9, 15], [0, 2, 8]).sum()))
        assert gradient is not None
        assert float(gradient) == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-5)
        assert abs(float(gradient)) > 1e-3


def test_positions_keep_their_digits_in_bfloat16() -> None:
    """A scheme whose weights are bfloat16 tells neighbours apart a thousand steps from the start."""
    scheme = position.make("fire", 16, 2, threshold=8.0, generator=torch.Generator().manual_seed(1))
    context = scheme.context(torch.tensor([[*range(990, 1000), 1001]]))
    exact = scheme.ratio(context.positions[:, -1:, None], context.positions[:, None])
    rounded = scheme.to(torch.bfloat16).ratio(context.positions[:, -1:, None], context.positions[:, None])
    assert (rounded.diff(dim=-1) < 0).all()
    assert torch.allclose(rounded, exact, rtol=0.02, atol=1e-3)
