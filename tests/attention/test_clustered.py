"""Clustered attention: when it equals `dot`, that padding and other rows do not change it, and where it is used."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli import attention
from ape_cli.attention import AttentionContext
from ape_cli.core.errors import UsageError
from tests.attention.plain import kind_of, net, scheme_of, vectors

NAMES = ["none", "rope", "orthogonal-tree"]


def mixed(
    kind: attention.AttentionType, name: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    scheme = scheme_of(name, "clustered")
    at = scheme.context(torch.arange(1, q.shape[2] + 1).expand(len(q), -1), mask)
    return kind.attend(scheme, q, k, v, AttentionContext.of(scheme, at, at), 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_padding_is_in_no_cluster(name: str) -> None:
    """The content of padding does not matter, even if there are fewer real queries than clusters."""
    q, k, v = vectors(1, 9), vectors(2, 9), vectors(3, 9)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 5:] = False
    for clusters in (2, 7):
        kind = attention.make("clustered", clusters=clusters)
        alone = mixed(kind, name, q[:1, :, :5], k[:1, :, :5], v[:1, :, :5])
        for scale in (1.0, 100.0, 0.0):
            other = q.clone()
            other[0, :, 5:] *= scale
            assert torch.allclose(mixed(kind, name, other, k, v, mask)[:1, :, :5], alone, atol=1e-9)


def test_it_acts_in_the_encoder_alone() -> None:
    made = net("clustered", scheme_of("rope"), layers=2)
    assert [layer.self_attention.attention_type.name for layer in made.encoder] == ["clustered"] * 2
    assert [layer.self_attention.attention_type.name for layer in made.decoder] == ["dot"] * 2
    assert [layer.cross_attention.attention_type.name for layer in made.decoder] == ["dot"] * 2
    scheme = scheme_of("rope")
    at = scheme.context(torch.arange(4)[None], causal=True)
    with pytest.raises(AssertionError, match="look ahead"):
        kind_of("clustered").attend(
            scheme, *(vectors(s, 4) for s in (1, 2, 3)), AttentionContext.of(scheme, at, at), 0.0
        )


def test_options_that_make_no_sense() -> None:
    for given, message in [
        ({"clusters": 0}, "bad clusters"),
        ({"clusters": True}, "bad clusters"),
        ({"cluster": 3}, r"unknown option of attention clustered[\s\S]*'clusters'"),
    ]:
        with pytest.raises(UsageError, match=message):
            attention.make("clustered", **given)
    assert attention.options("clustered") == {"clusters": 16, "iterations": 5}
    assert attention.options("dot") == {}
