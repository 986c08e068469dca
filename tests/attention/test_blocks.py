"""Attention that is computed in blocks of queries has the same values and gradients as attention in one piece."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.attention import AttentionContext, dot
from ape_cli.core.errors import UsageError
from ape_cli.position import Scheme
from tests.attention.plain import D, H, vectors

N = 13
WHO = ["keys", "causal", "causal and keys", "another sequence"]
SCHEMES = [("relative", 1.0), ("t5", 1.0), ("transformer-xl", 1.0), ("transformer-xl", 0.9), ("alibi", 1.0)]
SCHEMES += [("alibi", 0.9), ("rope", 0.9), ("orthogonal-seq", 0.9), ("orthogonal-grid", 0.9), ("euclidean", 0.9)]
SCHEMES += [("pope", 0.9)]


def make(name: str, decay: float) -> Scheme:
    options = {"max_size": 3, "decay": decay, "generator": torch.Generator().manual_seed(4)}
    if name == "euclidean":
        name, options = "orthogonal-grid", options | {"distance": "euclidean"}
    scheme = position.make(name, D, H, **options).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.mul_(5)
    return scheme


def link_of(scheme: Scheme, who: str) -> tuple[AttentionContext, int]:
    """Returns the link and the number of queries."""
    mask = torch.ones(2, N, dtype=torch.bool)
    mask[1, 9:] = mask[1, 1] = False
    line = torch.arange(N + 1)
    if scheme.structure.width == 2:
        line = torch.stack([line // 4, line % 4], dim=-1)  # a grid that is read row by row
    if who == "another sequence":
        source = scheme.context(line[None, 1:], mask)
        return AttentionContext.of(scheme, scheme.context(line[None, :8], causal=True, shared_with=source), source), 8
    here = scheme.context(line[None, 1:], mask if "keys" in who else None, causal="causal" in who)
    return AttentionContext.of(scheme, here, here), N


def small_blocks(patch: pytest.MonkeyPatch) -> list[int]:
    """Makes attention use blocks at any length. Returns a list that collects the number of queries of each block."""
    patch.setattr(dot, "_LONG", 1)
    patch.setattr(dot, "_LONG_FUSED", 1)
    patch.setattr(dot, "_AT_ONCE", 1)
    patch.setattr(dot, "_AT_LEAST", 4)
    sizes, checkpoint = [], dot.checkpoint
    patch.setattr(dot, "checkpoint", lambda *a, **b: (sizes.append(a[2].shape[-2]), checkpoint(*a, **b))[1])
    return sizes


@pytest.mark.parametrize(("name", "decay"), SCHEMES)
@pytest.mark.parametrize("who", WHO)
def test_in_blocks_as_at_once(name: str, decay: float, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = make(name, decay)

    def answer() -> list[Tensor]:
        link, m = link_of(scheme, who)
        q, k, v = (x.requires_grad_() for x in (vectors(1, m), vectors(2, N), vectors(3, N)))
        out = attention.make().attend(scheme, q, k, v, link, 0.0)
        return [out, *torch.autograd.grad((out * vectors(5, m)).sum(), [q, k, v, *scheme.parameters()])]

    expected = answer()
    sizes = small_blocks(monkeypatch)
    for found, one in zip(answer(), expected, strict=True):
        assert torch.allclose(found, one, rtol=1e-9, atol=1e-12)
    assert sizes == ([4, 4] if who == "another sequence" else [4, 4, 4, 1])


def test_dropout_is_drawn_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backward pass uses the dropout masks of the forward pass.

    The output is linear in the values, so its gradient with respect to them shows the weights that were drawn.
    """
    scheme = make("t5", 1.0)
    small_blocks(monkeypatch)
    link, m = link_of(scheme, "keys")
    v = vectors(3, N).requires_grad_()
    torch.manual_seed(7)
    out = attention.make().attend(scheme, vectors(1, m), vectors(2, N), v, link, 0.5)
    torch.rand(3)  # the random stream advances before the backward pass
    grad = torch.autograd.grad((out * vectors(5, m)).sum(), v)[0]
    assert torch.allclose((grad * v).sum(), (out * vectors(5, m)).sum(), rtol=1e-9)


def test_what_is_short_or_fused_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the default constants, 1,024 x 1,024 pairs are cut into blocks for a learned bias or a locality bias."""
    sizes, checkpoint = [], dot.checkpoint
    monkeypatch.setattr(dot, "checkpoint", lambda *a, **b: (sizes.append(0), checkpoint(*a, **b))[1])
    expected = {("t5", 1.0, 1023): 0, ("t5", 1.0, 1024): 4, ("none", 1.0, 1024): 0, ("none", 0.9, 1024): 4}
    for (name, decay, n), count in (expected | {("alibi", 1.0, 1024): 0}).items():
        scheme = make(name, decay)
        here = scheme.context(torch.arange(1, n + 1)[None])
        q, k, v = (vectors(seed, n) for seed in (1, 2, 3))
        with torch.no_grad():
            attention.make().attend(scheme, q, k, v, AttentionContext.of(scheme, here, here), 0.0)
        assert len(sizes) == count, (name, n)
        sizes.clear()


@pytest.mark.parametrize("name", ["forget", "contextual", "path", "selective-rope"])
def test_scores_of_content_in_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients of a layer, with the content of the keys that a block sees."""
    generator = torch.Generator().manual_seed(4)
    scheme = position.make(name, D, H, max_size=3, generator=generator)
    layer = attention.Attention(scheme, 0.0).double()
    scheme.double()
    found = []
    for small in (False, True):
        with monkeypatch.context() as patch:
            sizes = small_blocks(patch) if small else []
            x = vectors(1, N).transpose(1, 2).flatten(2).requires_grad_()
            here = scheme.context(torch.arange(1, N + 1)[None], causal=True)
            mixed = layer(x, x, scheme, AttentionContext.of(scheme, here, here))
            mixed.square().sum().backward()
            assert sizes[:4] == ([4, 4, 4, 1] if small else [])
        found.append([mixed, x.grad, *(p.grad.clone() for p in scheme.parameters())])
        scheme.zero_grad()
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-12)
    with attention.use_backend("fused"), pytest.raises(UsageError, match="scores of the scheme are its own"):
        layer(x, x, scheme, AttentionContext.of(scheme, here, here))
