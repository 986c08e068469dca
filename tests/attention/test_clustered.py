"""Clustered attention: where it is used, and its options."""

from __future__ import annotations

import pytest
import torch

from ape_cli import attention
from ape_cli.attention import AttentionContext
from ape_cli.core.errors import UsageError
from tests.attention.plain import kind_of, net, scheme_of, vectors


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
