"""`dot`: the plain path for learned biases on a CPU and the fused path both agree with torch's attention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ape_cli import adapters, attention, position
from ape_cli.attention import AttentionContext
from ape_cli.attention.dot import Dot
from ape_cli.core.errors import UsageError
from ape_cli.position import Scheme
from tests.attention.plain import WHO, D, H, link_of, vectors

LEARNED = ["relative", "t5", "transformer-xl"]
fused = functional.scaled_dot_product_attention


def make(name: str) -> Scheme:
    scheme = position.make(name, D, H, max_size=3, generator=torch.Generator().manual_seed(4)).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.mul_(5)  # larger, so that a bias that is missing or added twice is noticed
    return scheme


def seen_of(context: AttentionContext, m: int) -> Tensor:
    """Returns which query sees which key, bool [2, 1, m, 7], from a loop over all pairs."""
    seen = torch.ones(2, 1, m, 7, dtype=torch.bool)
    for b in range(2):
        for i in range(m):
            for j in range(7):
                real = context.keys is None or bool(context.keys[b, j])
                seen[b, 0, i, j] = real and (j <= i or not context.causal)
    return seen


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("who", WHO)
def test_a_learned_bias_is_that_of_torch(name: str, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output and the gradients of queries, keys, values and the scheme's parameters agree with torch's."""
    scheme = make(name)
    draws = [vectors(1, 7), vectors(2, 7), vectors(3, 7)]
    calls = []
    monkeypatch.setattr(
        functional, "scaled_dot_product_attention", lambda *a, **b: (calls.append(len(a)), fused(*a, **b))[1]
    )
    found = []
    for ours in (True, False):
        context, m = link_of(scheme, who)
        q, k, v = (x.clone().requires_grad_() for x in (draws[0][:, :, :m], *draws[1:]))
        if ours:
            out = Dot().attend(scheme, q, k, v, context, 0.0)
        else:
            bias = scheme.bias(q, context.q_context, context.k_context)
            assert bias is not None
            turned_q = scheme.rotate(q, context.q_context, "query")
            out = fused(turned_q, k, v, bias.masked_fill(~seen_of(context, m), float("-inf")))
        weights = vectors(5, m)
        found.append([out, *torch.autograd.grad((out * weights).sum(), [q, k, v, *scheme.parameters()])])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)
    assert not calls, "a learned bias takes the plain path"
    with torch.no_grad():
        context, m = link_of(scheme, who)
        out = Dot().attend(scheme, draws[0][:, :, :m], draws[1], draws[2], context, 0.0)
    assert calls == [3]
    assert torch.allclose(out, found[1][0], rtol=1e-9, atol=1e-12)


def test_queries_and_keys_of_another_shape_are_refused() -> None:
    """Most schemes would compute scores from them without an error."""
    scheme = position.make("orthogonal-seq", D, H)
    context = scheme.context(torch.tensor([[1, 2, 3], [1, 2, 3]]))
    right = torch.zeros(2, H, 3, D // H)
    assert attention.logits(scheme, right, right, context, context).shape == (2, H, 3, 3)
    for shape in ((2, H, 3, D), (2, 2 * H, 3, D // H), (2, 3, H, D // H), (2, H, 4, D // H), (1, H, 3, D // H), (2, 3)):
        for pair in ((torch.zeros(shape), right), (right, torch.zeros(shape))):
            for function in (attention.logits, adapters.flex_inputs):
                with pytest.raises(UsageError, match=rf"[qk] does not fit[\s\S]*allowed: \[2, {H}, 3, {D // H}\]"):
                    function(scheme, *pair, context, context)
    with pytest.raises(UsageError, match=r"q needs a context[\s\S]*scheme\.context\(positions\)"):
        attention.logits(scheme, right, right, context.positions, context)
