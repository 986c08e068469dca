"""The inputs of torch's attention functions, for every scheme: the results are those of our own attention."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from ape_cli import adapters, attention, position
from ape_cli.attention import AttentionContext
from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme
from tests.position.test_contract import READS, make, places, vectors

pytestmark = pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
PRODUCTS = [pair for pair in READS if not position.load(pair[0]).overrides("logits")]
MASK = torch.tensor([[True] * 10, [True] * 7 + [False] * 3, [True] * 9 + [False]])


def contexts(scheme: Scheme, expression: str, who: str) -> tuple[Context, Context]:
    at = places(expression)
    source = None if scheme.causal_only else scheme.context(at, MASK)
    if who == "another":
        return scheme.context(at[:, :6], causal=True, shared_with=source), source or scheme.context(at, MASK)
    causal = who == "causal"
    here = scheme.context(at, MASK if who == "padding" else None, causal, source if causal else None)
    return here, here


@pytest.mark.parametrize(("name", "expression"), PRODUCTS)
def test_sdpa_is_our_attention(name: str, expression: str) -> None:
    for who in ("all", "padding", "causal", "another"):
        check_sdpa(name, expression, who)


def check_sdpa(name: str, expression: str, who: str) -> None:
    """Values and gradients, with scores that our own attention computes one step at a time."""
    scheme = make(name, expression, decay=1.0)
    q_context, k_context = contexts(scheme, expression, who)
    q, k, v = (
        vectors(seed, count=count).requires_grad_()
        for seed, count in ((1, q_context.positions.shape[1]), (2, 10), (3, 10))
    )
    inputs = adapters.sdpa_inputs(scheme, q, k, q_context, k_context)
    found = functional.scaled_dot_product_attention(inputs.q, inputs.k, v, attn_mask=inputs.attn_mask)
    link = AttentionContext.of(scheme, q_context, k_context)
    wanted = attention.average(attention.logits(scheme, q, k, q_context, k_context), v, link, 0.0)
    assert torch.allclose(found, wanted, atol=1e-12)
    learned = [p for p in scheme.parameters() if scheme.overrides("rotate") or scheme.overrides("bias")]
    ours, theirs = (
        torch.autograd.grad(out.square().sum(), [q, k, v, *learned], allow_unused=True, retain_graph=True)
        for out in (found, wanted)
    )
    for x, y in zip(ours, theirs, strict=True):
        assert (x is None) == (y is None)
        assert x is None or torch.allclose(x, y, atol=1e-10)
    assert all(grad is not None and grad.abs().max() > 0 for grad in ours[:3])


@pytest.mark.parametrize(("name", "expression"), PRODUCTS)
def test_flex_is_our_attention(name: str, expression: str) -> None:
    for who in ("causal", "another"):
        check_flex(name, expression, who)


@torch.no_grad()
def check_flex(name: str, expression: str, who: str) -> None:
    """Also with a locality bias, and with padding to a longer length, which is never attended to."""
    scheme = make(name, expression, decay=0.9)
    q_context, k_context = contexts(scheme, expression, who)
    q, k, v = vectors(1, count=q_context.positions.shape[1]), vectors(2), vectors(3)
    inputs = adapters.flex_inputs(scheme, q, k, q_context, k_context)
    wanted = attention.make("dot").attend(scheme, q, k, v, AttentionContext.of(scheme, q_context, k_context), 0.0)
    padded = [functional.pad(x, (0, 0, 0, 16 - x.shape[2])) for x in (inputs.q, inputs.k, v)]
    found = flex_attention(*padded, score_mod=inputs.score_mod)
    assert torch.allclose(found[:, :, : q.shape[2]], wanted, atol=1e-12)


def test_a_locality_bias_is_refused_where_it_cannot_be() -> None:
    scheme = make("orthogonal-tree", "tree(2)")
    context = scheme.context(places("tree(2)"))
    with pytest.raises(UsageError, match=r"decay=0.98[\s\S]*decay=1[\s\S]*flex_inputs"):
        adapters.sdpa_inputs(scheme, vectors(1), vectors(2), context)
