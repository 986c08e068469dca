"""Queries that may attend to no key: their results are 0, in every kind of attention, and nothing becomes NaN."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from ape_cli import attention, position
from ape_cli.attention import Attention, AttentionContext, dot
from ape_cli.position import Scheme
from tests.attention.plain import KINDS, D, H, K, kind_of, scheme_of

T, F = True, False
KEYS = torch.tensor([[F, F, T, T, T], [T, T, T, T, T], [F, F, F, F, F], [T, F, T, T, F]])
ROWS, N = KEYS.shape


def contexts(scheme: Scheme, *, mixes_queries: bool = False) -> Iterator[tuple[AttentionContext, Tensor]]:
    """Yields contexts, and which queries see no key: left padding in a decoder, rows of padding, also between both."""
    at = torch.arange(1, N + 1)[None]
    keys = scheme.context(at, KEYS)
    nothing = ~KEYS.any(1, keepdim=True)
    if not scheme.causal_only:
        yield AttentionContext.of(scheme, keys, keys), nothing.expand(-1, N)
    if mixes_queries:
        return
    here = scheme.context(at, KEYS, causal=True)
    yield AttentionContext.of(scheme, here, here), KEYS.cumsum(1) == 0
    if not scheme.causal_only:
        asks = scheme.context(at[:, :3], causal=True)
        yield AttentionContext.of(scheme, asks, keys), nothing.expand(-1, 3)


def drawn(count: int, dtype: torch.dtype) -> Tensor:
    values = torch.randn(ROWS, H, count, K, generator=torch.Generator().manual_seed(count))
    return values.to(dtype).requires_grad_()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["none", "t5", "orthogonal-seq"])
def test_every_kind(kind: str, name: str) -> None:
    """The result is 0, forward and backward, in each dtype, by each backend, with and without dropout."""
    made = kind_of(kind)
    if name == "t5" and made.refuses_bias:
        return
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        scheme = scheme_of(name, kind).to(dtype)
        for context, empty in contexts(scheme, mixes_queries=made.mixes_queries):
            for backend in ("plain", "fused") if kind == "dot" and context.decay is None else ("plain",):
                for rate in (0.0, 0.4):
                    q, k, v = (drawn(count, dtype) for count in (empty.shape[1], N, N))
                    with attention.use_backend(backend):
                        out = made.attend(scheme, q, k, v, context, rate)
                    wanted, hidden = [q, k, v, *scheme.parameters()], empty[:, None].expand(-1, H, -1)
                    found = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
                    grads = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
                    none = out[hidden], grads[0][hidden], grads[1][2], grads[2][2]  # the third row is padding alone
                    assert not any(x.any() for x in none), (dtype, backend, rate)
                    assert all(x.isfinite().all() for x in (out, *grads))
                    assert rate or out[~hidden].any(-1).all()


@pytest.mark.parametrize("name", position.names())
def test_every_scheme(name: str) -> None:
    """In two layers of a decoder, tokens behind padding are as without it, and so are the gradients of the weights."""
    scheme = position.make(name, D, H, max_size=8, generator=torch.Generator().manual_seed(3))
    layers = nn.ModuleList(Attention(scheme, 0.0, index=i) for i in range(2)).double()
    scheme.double()
    at, width = torch.arange(1, N + 1)[None], scheme.structure.width
    at = at if width == 1 else torch.stack([at] * width, -1)
    x = torch.randn(1, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    weights = [*scheme.parameters(), *layers.parameters()]
    source = scheme.context(at) if scheme.needs_encoder else None

    def results(begin: int, keys: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """The results of the last three tokens, and the gradients of all weights."""
        here = scheme.context(at[:, begin:], keys, True, source)
        context, y = AttentionContext.of(scheme, here, here), x[:, begin:]
        for layer in layers:
            y = layer(y, y, scheme, context)
        found = torch.autograd.grad(y[:, -3:].square().sum(), weights, allow_unused=True)
        assert y.isfinite().all()
        return y[:, -3:], [torch.zeros(()) if g is None else g for g in found]

    (out, grads), (expected, those) = results(0, KEYS[:1]), results(2, None)
    assert torch.allclose(out, expected, atol=1e-9)
    assert all(torch.allclose(g, h, atol=1e-9) for g, h in zip(grads, those, strict=True))


def test_blocks_of_long_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of queries, some of which have no query with a key, are as the whole."""
    for name in ("orthogonal-seq", "t5", "forget", "contextual"):
        scheme = scheme_of(name)
        key = scheme.attach("decoder", 0)
        content = scheme.double().content(key, torch.randn(ROWS, N, D, dtype=torch.float64))
        here = scheme.context(torch.arange(1, N + 1)[None], KEYS, causal=True)
        context = AttentionContext.of(scheme, here, here)
        context = context if content is None else context.with_content(content)
        q, k, v = (drawn(N, torch.float64) for _ in range(3))
        whole = kind_of("dot").attend(scheme, q, k, v, context, 0.0)
        with monkeypatch.context() as patch:
            patch.setattr(dot, "_LONG", 1)
            patch.setattr(dot, "_LONG_FUSED", 1)
            patch.setattr(dot, "_AT_ONCE", 1)
            patch.setattr(dot, "_AT_LEAST", 2)
            blocks = kind_of("dot").attend(scheme, q, k, v, context, 0.0)
        assert torch.allclose(whole, blocks, atol=1e-12)
        assert all(g.isfinite().all() for g in torch.autograd.grad(blocks.sum(), (q, k, v)))


def test_contexts_are_released_at_once() -> None:
    """Not by the garbage collector, because they hold the graph of all layers."""
    for name in ("t5", "orthogonal-seq"):
        scheme = scheme_of(name)
        for context, empty in contexts(scheme):
            for keys in (context.keys, torch.ones_like(KEYS)):  # with and without a query that sees no key
                used = replace(context, keys=keys)
                q, k, v = (drawn(count, torch.float64) for count in (empty.shape[1], N, N))
                kind_of("dot").attend(scheme, q, k, v, used, 0.1).sum().backward()
                kept = weakref.ref(used)
                del used
                assert kept() is None
            kept_positions = weakref.ref(context.q_context)
            del context
        assert kept_positions() is None
