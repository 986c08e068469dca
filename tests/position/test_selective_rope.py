"""Selective RoPE: scores of another implementation, sums of angles by hand, and numerical care."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ape_cli import position
from ape_cli.position.selective_rope import Angles
from tests.position import causal
from tests.position.golden import GOLDEN

SIZED = [{}, {"convolution": 0}, {"gate": True, "bias": True}]


def drawn(scheme: position.Scheme) -> Angles:
    """The module of the layer, with weights so large that tokens turn by whole radians."""
    module = scheme.layers["decoder_0"]
    assert isinstance(module, Angles)
    generator = torch.Generator().manual_seed(6)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return module


def angles(*steps: float) -> torch.Tensor:
    """Angles of tokens in a single head with a single pair. -> float64 [1, N, 1, 1]"""
    return torch.tensor(steps, dtype=torch.float64)[None, :, None, None]


@pytest.mark.parametrize(
    ("name", "options"), [("scores", {}), ("scores_with_bias_and_gate", {"gate": True, "bias": True})]
)
def test_scores_of_another_implementation(name: str, options: dict[str, Any]) -> None:
    """Theirs are float32; the largest difference is 6e-6."""
    theirs = {
        key: torch.tensor(value, dtype=torch.float64) for key, value in GOLDEN["selective_rope"].items() if key != "how"
    }
    scheme = position.make("selective-rope", d_model=8, heads=2, rank=3, base=10.0, **options)
    key = scheme.attach("decoder", 0)
    of_bias_and_gate = {"bias": "bias", "gate.weight": "gate_weight", "gate.bias": "gate_bias"} if options else {}
    weights = {"project.0.weight": "project_0", "project.1.weight": "project_1", "convolution.weight": "convolution"}
    state = {own: theirs[their] for own, their in (weights | of_bias_and_gate).items()}
    scheme.double().layers[key].load_state_dict(state)
    q, k = (theirs[side].transpose(0, 1)[None] for side in ("q", "k"))
    found = causal.scores(scheme, q, k, scheme.content(key, theirs["x"][None]))[0]
    assert torch.allclose(found, theirs[name], rtol=0, atol=2e-5)


def test_quarter_turns_by_hand() -> None:
    """A token turns by its own angle, and not by that of the key: one to the query of the last token, from each key."""
    q, k = torch.tensor([[1.0, 0.0]] * 3).double(), torch.tensor([[3.0, 5.0]] * 3).double()
    quarter = math.pi / 2
    found = causal.scores(
        position.make("selective-rope", 2, 1), q[None, None], k[None, None], angles(9, quarter, quarter)
    )
    # relative to the query, (3, 5) stays, is turned back by a quarter to (5, -3), and by a half to (-3, -5)
    expected = torch.tensor([-3.0, 5.0, 3.0]).double() / math.sqrt(2)
    assert torch.allclose(found[0, 0, 2], expected)


@pytest.mark.parametrize("options", SIZED)
def test_a_score_depends_on_the_tokens_from_the_key_to_the_query(options: dict[str, Any]) -> None:
    """And on those that the convolution of the token after the key reads."""
    scheme, (q, k), x = causal.scheme_of("selective-rope", **options), causal.qk(), causal.tokens()
    reach = drawn(scheme).reach
    other = x.clone()
    other[:, :10] = x[:, 10:20]
    before, after = (causal.scores(scheme, q, k, causal.content_of(scheme, tokens)) for tokens in (x, other))
    first = 10 + max(reach - 1, -1)  # the first key whose next token reads none of the changed ones
    assert torch.allclose(before[:, :, first:, first:], after[:, :, first:, first:], atol=1e-12)
    assert not torch.allclose(before[:, :, 20:, first - 1], after[:, :, 20:, first - 1], atol=1e-6)


def test_a_long_row_keeps_its_digits() -> None:
    """After 100,000 tokens of 3 radians, a sum in float32 would be wrong by 0.02 radians; within autocast too."""
    count, step = 100_000, torch.tensor(3.0)
    content = step.expand(1, count, 1, 1)
    q, k = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, count, 2)
    q[..., 0], k[..., 0] = 1.0, 1.0
    found = position.make("selective-rope", 2, 1).logits(q, k, content, None)  # type: ignore[arg-type]
    assert found is not None
    apart = torch.arange(count - 1, -1, -1, dtype=torch.float64)
    assert torch.allclose(found[0, 0, 0].double(), (3 * apart).cos() / math.sqrt(2), rtol=0, atol=1e-6)


def test_weights_start_as_in_the_release() -> None:
    """Normal draws of standard deviation 0.02; a bias of 0, which is RoPE, and a gate of one half."""
    scheme = position.make("selective-rope", 256, 4, rank=64, gate=True, bias=True)
    module = scheme.layers[scheme.attach("decoder", 0)]
    assert isinstance(module, Angles)
    assert module.convolution is not None
    assert module.gate is not None
    assert module.bias is not None
    for weight in (module.project[0].weight, module.project[1].weight, module.convolution.weight, module.gate.weight):
        assert abs(float(weight.detach().std()) / 0.02 - 1) < 0.15
    assert not module.bias.any()
    assert not module.gate.bias.any()
