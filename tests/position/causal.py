"""What holds for every scheme that acts only in causal attention, measured on a single attention.

Shapes: B batch, H heads, N tokens, K channels of a head, D channels of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ape_cli import position
from ape_cli.attention import Attention, AttentionContext, KVCache
from ape_cli.position import AttentionPair, Scheme

B, N, H, K = 2, 75, 2, 8  # more tokens than two blocks
D = H * K
Check = Callable[[str], None]


def scheme_of(name: str, dtype: torch.dtype = torch.float64, **options: Any) -> Scheme:
    """A small scheme that has its module of the decoder's first layer."""
    settings = {"max_size": N, "generator": torch.Generator().manual_seed(1)} | options
    scheme = position.make(name, D, H, **settings)
    scheme.attach("decoder", 0)
    return scheme.to(dtype)


def tokens(dtype: torch.dtype = torch.float64, seed: int = 2) -> torch.Tensor:
    """What a layer reads. -> [B, N, D]"""
    return torch.randn(B, N, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def qk(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys. -> [B, H, N, K] each"""
    both = torch.randn(2, B, H, N, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    q, k = both.to(dtype)
    return q, k


def content_of(scheme: Scheme, x: torch.Tensor) -> torch.Tensor | None:
    """What the module of the decoder's first layer returns for tokens [B, N, D], or None without one."""
    return scheme.layers["decoder_0"](x) if "decoder_0" in scheme.layers else None


def link_of(scheme: Scheme, count: int) -> AttentionPair:
    """All of `count` tokens attend to each other."""
    at = scheme.context(torch.arange(count)[None], causal=True)
    return AttentionPair(at, at)


def scores(scheme: Scheme, q: torch.Tensor, k: torch.Tensor, content: torch.Tensor | None) -> torch.Tensor:
    """The logits of the scheme, with 0 for keys ahead. The queries are the last of the keys. -> [B, H, M, N]"""
    found = scheme.logits(q, k, content, link_of(scheme, k.shape[2]))
    assert found is not None
    assert bool(found.isfinite().all())
    return found.tril(k.shape[2] - q.shape[2])


def check_queries_are_the_last_keys(name: str) -> None:
    """Blocks of queries, and a single one, have the scores that they have among all."""
    scheme = scheme_of(name)
    (q, k), content = qk(), content_of(scheme, tokens())
    every = scores(scheme, q, k, content)
    for begin, end in ((0, 1), (5, 25), (20, 60), (70, N), (N - 1, N), (0, 40)):
        seen = None if content is None else content[:, :end]
        part = scores(scheme, q[:, :, begin:end], k[:, :, :end], seen)
        assert torch.allclose(part, every[:, :, begin:end, :end], atol=1e-12)


def attention_of(scheme: Scheme) -> Attention:
    torch.manual_seed(4)
    return Attention(scheme, 0.0, role="decoder").to(torch.float64).eval()


def run(attention: Attention, scheme: Scheme, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """The output of causal self-attention. [B, N, D] -> the same"""
    at = scheme.context(torch.arange(x.shape[1])[None], mask, causal=True)
    out: torch.Tensor = attention(x, x, scheme, AttentionContext.of(scheme, at, at))
    return out


def check_tokens_one_by_one(name: str) -> None:
    """A decoder that adds tokens one by one, after some at once, computes what it computes for all at once."""
    scheme, x = scheme_of(name), tokens()
    attention = attention_of(scheme)
    past, found, begin = KVCache(), [], 0
    for end in (40, *range(41, N + 1)):
        every, new = (scheme.context(torch.arange(a, end)[None], causal=True) for a in (0, begin))
        context = replace(AttentionContext.of(scheme, new, every), causal=begin == 0)
        found.append(attention(x[:, begin:end], x[:, begin:end], scheme, context, past))
        begin = end
    assert torch.allclose(torch.cat(found, dim=1), run(attention, scheme, x), atol=1e-12)


def check_padding_in_front(name: str) -> None:
    """Padding before the tokens, hidden by the mask of keys, changes nothing, whatever it contains."""
    scheme, x = scheme_of(name), tokens()
    attention = attention_of(scheme)
    padded = torch.cat([50 * tokens(seed=5)[:, :9], x], dim=1)
    mask = torch.arange(N + 9).expand(B, -1) >= 9
    assert torch.allclose(run(attention, scheme, padded, mask)[:, 9:], run(attention, scheme, x), atol=1e-10)


def check_nothing_ahead_is_seen(name: str) -> None:
    """Tokens ahead, also enormous ones, change no score up to the query, and no gradient."""
    scheme, x = scheme_of(name), tokens()
    attention = attention_of(scheme)
    other = torch.cat([x[:, :30], 1e3 * tokens(seed=6)[:, 30:]], dim=1)
    outcomes = []
    for given in (x.requires_grad_(), other.detach().requires_grad_()):
        out = run(attention, scheme, given)[:, :30]
        (of_x,) = torch.autograd.grad(out.square().sum(), given)
        outcomes.append((out, of_x[:, :30]))
        assert not of_x[:, 30:].any()
    for one, two in zip(*outcomes, strict=True):
        assert torch.allclose(one, two, atol=1e-10)


def check_autocast(name: str, worst: float) -> None:
    """Within autocast to bfloat16, scores differ by less than `worst` from those in float32, and have gradients."""
    scheme = scheme_of(name, torch.float32)
    (q, k), x = qk(torch.float32), tokens(torch.float32)
    exact = scores(scheme, q, k, content_of(scheme, x))
    with torch.autocast("cpu", torch.bfloat16):
        rough = scores(scheme, q.bfloat16(), k.bfloat16(), content_of(scheme, x.bfloat16()))
    assert rough.dtype == torch.bfloat16
    assert float((rough - exact).abs().max().detach()) < worst
    rough.float().square().sum().backward()
    for parameter in scheme.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.isfinite().all())
        assert bool(parameter.grad.any())


def check_gradients(name: str) -> None:
    """The gradients of queries, keys and all parameters are those of finite differences."""
    scheme = scheme_of(name)
    count = 5
    q, k = (each[:1, :, :count].clone().requires_grad_() for each in qk())
    x = tokens()[:1, :count].clone().requires_grad_()

    def found(q: torch.Tensor, k: torch.Tensor, x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return scores(scheme, q, k, content_of(scheme, x))

    assert torch.autograd.gradcheck(found, (q, k, x, *scheme.parameters()))
