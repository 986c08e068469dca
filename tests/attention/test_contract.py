"""Tests of every kind of attention: its definition, lemma 2.3 of the paper, and its behaviour in a transformer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from ape_cli import adapters, attention
from ape_cli.attention import AttentionContext
from tests.attention.plain import KINDS, OPTIONS, WHO, H, K, kind_of, link_of, mixture, net, scheme_of, vectors
from tests.models.test_reference import operator, steps_between

ALL = attention.names()
PLACES = {  # positions of 5 queries and of 7 keys
    "none": ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7]),
    "rope": ([0, 1, 4, 3, 9], [2, 1, 30, 4, 5, 8, 7]),
    "orthogonal-tree": ([0, 1, 5, 12, 2], [1, 2, 3, 6, 13, 27, 4]),
}
SCHEMES = list(PLACES)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCHEMES)
def test_against_the_definition(kind: str, name: str) -> None:
    """The output equals that of a double loop over queries and keys, for each row and head."""
    made = kind_of(kind)
    for decay in (1.0,) if made.refuses_decay else (1.0, 0.5):  # float32 represents their powers exactly
        for who in WHO[:2] if made.mixes_queries else WHO:
            check_definition(kind, name, decay, who)


def check_definition(kind: str, name: str, decay: float, who: str) -> None:
    made = kind_of(kind)
    scheme = scheme_of(name, decay=decay)
    link, m = link_of(scheme, who, *(torch.tensor([p, p]) for p in PLACES[name]))
    n = 7
    q, k, v = vectors(1, m), vectors(2, n), vectors(3, n)
    found = made.attend(scheme, q, k, v, link, 0.0)
    at, of = link.q_context.positions[0].tolist(), link.k_context.positions[0].tolist()
    c = [[decay ** steps_between(scheme, x, y) for y in of] for x in at]
    for b in range(2):
        real = list(range(n)) if link.keys is None else link.keys[b].nonzero().flatten().tolist()
        seen = [[j for j in real if j <= i or not link.causal] for i in range(m)]
        asks = real if made.mixes_queries else list(range(m))  # padding belongs to no cluster
        for h in range(H):
            left, right = ([operator(scheme, p, h) for p in places] for places in (at, of))
            expected = mixture(
                kind, q[b, h, asks], k[b, h], v[b, h], [left[i] for i in asks], right, [seen[i] for i in asks],
                [c[i] for i in asks], **OPTIONS.get(kind, {})
            )  # fmt: skip
            assert torch.allclose(found[b, h, asks], expected, atol=1e-9), (decay, who, b, h)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize("kind", [kind for kind in ALL if not attention.load(kind).mixes_queries])
def test_the_last_queries_see_all_keys_before_them(kind: str) -> None:
    """Fewer queries than keys are the last ones, as with keys that were kept. So it is in PyTorch's functions."""
    scheme, (q, k, v) = scheme_of("rope"), (vectors(seed, 7) for seed in (1, 2, 3))
    mask = torch.tensor([[True] * 7, [False] * 2 + [True] * 5])
    every = scheme.context(torch.arange(7)[None], mask, causal=True)
    last = scheme.context(torch.arange(5, 7)[None], causal=True)
    whole, some = (AttentionContext.of(scheme, queries, every) for queries in (every, last))
    expected = kind_of(kind).attend(scheme, q, k, v, whole, 0.0)[:, :, 5:]
    assert torch.allclose(kind_of(kind).attend(scheme, q[:, :, 5:], k, v, some, 0.0), expected, atol=1e-12)
    if kind == "dot":
        sdpa = adapters.sdpa_inputs(scheme, q[:, :, 5:], k, last, every)
        found = functional.scaled_dot_product_attention(sdpa.q, sdpa.k, v, attn_mask=sdpa.attn_mask)
        assert torch.allclose(found, expected, atol=1e-12)
        flex = adapters.flex_inputs(scheme, q[:, :, 5:], k, last, every)
        assert torch.allclose(flex_attention(flex.q, flex.k, v, score_mod=flex.score_mod), expected, atol=1e-12)


# Lemma 2.3 ---------------------------------------------------------------------------------------


def mixed(kind: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scheme = scheme_of("none")
    at, of = (scheme.context(torch.arange(x.shape[2])[None] + 1) for x in (q, k))
    return kind_of(kind).attend(scheme, q, k, v, AttentionContext.of(scheme, at, of), 0.0)


@pytest.mark.parametrize("kind", ALL)
def test_the_group_actions_that_it_claims(kind: str) -> None:
    """Att(t Q g, s K g, s V h) = t Att(Q, K, V) h holds for each action that the kind claims, and for no other."""
    q, k, v = vectors(1, 6), vectors(2, 7), vectors(3, 7)
    draws = torch.Generator().manual_seed(9)
    t, s = torch.randperm(6, generator=draws), torch.randperm(7, generator=draws)
    square = torch.randn(K, K, dtype=torch.float64, generator=draws)
    g, h = torch.linalg.qr(square)[0], square
    plain, claims = mixed(kind, q, k, v), attention.load(kind)
    for held, one, other in (
        ("permutation" not in claims.lacks, mixed(kind, q[:, :, t], k[:, :, s], v[:, :, s]), plain[:, :, t]),
        ("rotation" not in claims.lacks, mixed(kind, q @ g, k @ g, v), plain),
        ("values" not in claims.lacks, mixed(kind, q, k, v @ h), plain @ h),
    ):
        assert bool(torch.allclose(one, other, atol=1e-9)) == held
        assert held or not torch.allclose(one, other, atol=1e-3)
    for wrong in (mixed(kind, q[:, :, t], k, v), mixed(kind, q @ g, k, v), mixed(kind, q, k @ g, v)):  # on one side
        assert not torch.allclose(wrong, plain, atol=1e-3)


# In a transformer --------------------------------------------------------------------------------

IDS = torch.tensor([[1, 5, 6, 10, 3, 7, 9, 4], [1, 9, 8, 7, 6, 3, 3, 5], [1, 4, 4, 6, 8, 10, 11, 3]])
AT = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 6, 13, 27, 4], [0, 1, 3, 2, 6, 12, 25, 50]])
MODELS = [(kind, name) for kind in ALL for name in SCHEMES]


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_bf16_is_at_work_and_close(kind: str, name: str) -> None:
    made = net(kind, scheme_of(name, kind)).float()
    inputs = IDS[:, 1:], AT[:, 1:], IDS[:, 1:] != 4, IDS, AT
    exact = made(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rough = made(*inputs)
    assert exact.dtype == torch.float32
    assert rough.dtype == torch.bfloat16
    assert 0 < float((exact - rough.float()).detach().abs().mean()) < 0.1
    rough.float().logsumexp(-1).sum().backward()
    assert all(p.grad.isfinite().all() for p in made.parameters() if p.grad is not None)
