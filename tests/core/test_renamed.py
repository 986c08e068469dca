"""A user's file with names of the version before still works, and warns."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from ape_cli import attention, position
from ape_cli.data import position_maps

OLD = """
from ape_cli.attention import AttentionKind, scores_of
from ape_cli.data.position_maps import PositionMap
from ape_cli.position import FastScheme, Link


class Kind(AttentionKind):
    takes_frame = True

    def attend(self, scheme, q, k, v, context, dropout):
        return scores_of(scheme, q, k, context).softmax(-1) @ v


class Map(PositionMap):
    def positions(self, keys, counts, most):
        return None


class Scheme(FastScheme):
    def prepare(self, positions, plan, beside):
        return positions if beside is None else beside

    def frame(self, context):
        return None

    def rotate_in_frame(self, x, context, side):
        return 2 * x

    pair = Link
"""


def test_classes_and_hooks_keep_their_old_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "written_before.py").write_text(OLD)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(DeprecationWarning, match="is now called") as warned:
        own = importlib.import_module("written_before")
    assert {str(warning.message).partition(" is now called ")[0] for warning in warned} == {
        "ape_cli.attention.AttentionKind",
        "ape_cli.data.position_maps.PositionMap",
        "ape_cli.position.Link",
        "Kind.takes_frame",
        "Scheme.frame",
        "Scheme.rotate_in_frame",
    }
    assert issubclass(own.Kind, attention.AttentionType)
    assert own.Kind.takes_basis
    assert issubclass(own.Map, position_maps.PositionSampler)
    shape = position.make("rope", d_model=8, heads=2).shape
    scheme = own.Scheme(shape)
    source = scheme.context(torch.tensor([[1, 2]]))
    with pytest.warns(DeprecationWarning, match="beside is now called shared_with"):
        target = scheme.context(torch.tensor([[4, 5]]), beside=source)
    assert target.state is source.positions
    q, k = torch.randn(2, 1, 2, 2, 4)
    assert torch.equal(attention.rotated(scheme, q, k, attention.AttentionContext.of(scheme, source, source))[0], 2 * q)
    with pytest.warns(DeprecationWarning, match="kind is now called attention_type"):
        layer = attention.Attention(scheme, 0.0, kind=own.Kind())
    x = torch.randn(1, 2, 8)
    assert layer(x, x, scheme, attention.AttentionContext.of(scheme, source, source)).shape == x.shape


@pytest.mark.parametrize("module", ["attention", "position", "data.position_maps"])
def test_other_names_are_still_missing(module: str) -> None:
    assert not hasattr(importlib.import_module(f"ape_cli.{module}"), "Missing")
