"""What holds for every scheme that acts only in causal attention, measured on a single attention.

Shapes: B batch, H heads, N tokens, K channels of a head, D channels of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ape_cli import position
from ape_cli.attention import Attention, AttentionContext, KVCache
from ape_cli.position import AttentionPair, Scheme
from tests.position.draws import draw

B, N, H, K = 2, 75, 2, 8  # more tokens than two blocks
D = H * K
Check = Callable[[str, dict[str, Any]], None]  # of a scheme and its options


def scheme_of(name: str, dtype: torch.dtype = torch.float64, width: int = D, **options: Any) -> Scheme:
    """A small scheme that has its module of the decoder's first layer."""
    settings = {"max_size": N, "generator": torch.Generator().manual_seed(1)} | options
    scheme = position.make(name, width, H, **settings)
    scheme.attach("decoder", 0)
    return scheme.to(dtype)


def tokens(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """What a layer reads. -> [B, N, D]"""
    return draw(B, N, D, seed=2).to(dtype)


def qk(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys. -> [B, H, N, K] each"""
    both = draw(2, B, H, N, K, seed=3)
    q, k = both.to(dtype)
    return q, k


def content_of(scheme: Scheme, x: torch.Tensor) -> torch.Tensor | None:
    """What the module of the decoder's first layer returns for tokens [B, N, D], or None without one."""
    return scheme.content("decoder_0", x)


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


def check_autocast(name: str, options: dict[str, Any], worst: float) -> None:
    """Within autocast to bfloat16, scores differ by less than `worst` from those in float32, and have gradients."""
    scheme = scheme_of(name, torch.float32, **options)
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


def check_gradients(name: str, options: dict[str, Any]) -> None:
    """The gradients of queries, keys and all parameters are those of finite differences, which take two runs each.

    Parameters are as large as after training, and `contextual` also reaches its last position.
    """
    count, channels = 5, 4
    scheme = scheme_of(name, width=H * channels, max_size=2, **options)
    for i, parameter in enumerate(scheme.parameters()):
        parameter.data = draw(*parameter.shape, seed=10 + i)
    q, k = (each.requires_grad_() for each in draw(2, 1, H, count, channels, seed=3))
    x = draw(1, count, H * channels, seed=2).requires_grad_()

    def found(q: torch.Tensor, k: torch.Tensor, x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return scores(scheme, q, k, content_of(scheme, x))

    assert torch.autograd.gradcheck(found, (q, k, x, *scheme.parameters()))


def check_tokens_in_parts(name: str, options: dict[str, Any]) -> None:
    """A layer returns the same for all tokens at once, in parts, and with padding before or after them.

    Later tokens do not change what it returns for earlier ones.
    """
    scheme, x = scheme_of(name, **options), tokens()
    layer, past = Attention(scheme, 0.0).double(), KVCache()

    def attended(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """The result for all tokens at once. [B, N, D], bool [B, N] -> [B, N, D]"""
        at = scheme.context(torch.arange(x.shape[1])[None], mask, causal=True)
        return layer(x, x, scheme, AttentionContext.of(scheme, at, at))

    expected = attended(x)
    for begin, end in ((0, 1), (1, 2), (2, 40), (40, 41), (41, N)):
        new, every = (scheme.context(torch.arange(first, end)[None], causal=True) for first in (begin, 0))
        part = layer(x[:, begin:end], x[:, begin:end], scheme, AttentionContext.of(scheme, new, every), past)
        assert torch.allclose(part, expected[:, begin:end], atol=1e-12)
    noise, real = 9 * x[:, :5].flip(0), torch.ones(B, N + 5, dtype=torch.bool)
    for padding, padded in ((slice(0, 5), [noise, x]), (slice(N, N + 5), [x, noise])):
        mask = real.clone()
        mask[:, padding] = False
        assert torch.allclose(attended(torch.cat(padded, dim=1), mask)[mask].view_as(x), expected, atol=1e-12)
    later = torch.cat([x[:, :50], noise], dim=1)
    assert torch.allclose(attended(later)[:, :50], expected[:, :50], atol=1e-12)
