"""Sinusoidal: the formula by hand, in one and in several dimensions, and that it is really added."""

from __future__ import annotations

import math

import pytest
import torch

from ape_cli import position
from ape_cli.core.errors import UsageError
from ape_cli.evaluation import laws
from ape_cli.evaluation.laws import _subjects
from ape_cli.models.transformer import Transformer
from ape_cli.position.sinusoidal import Sinusoidal
from ape_cli.structure import parse_structure
from tests.conftest import ape


def table(expression: str, places: list, d_model: int) -> torch.Tensor:
    """The vectors of some places. -> [N, D]"""
    scheme = position.make("sinusoidal", d_model, heads=1, structure=expression).double()
    context = scheme.context(torch.tensor([places]))
    return scheme.embed(torch.zeros(1, len(places), d_model, dtype=torch.float64), context)[0]


def test_a_grid_by_hand() -> None:
    """Two axes of four channels, with frequencies 1 and 10000^(-2/4) = 1/100, at row 3 and column 5."""
    (found,) = table("grid(2)", [[3, 5]], 8)
    expected = [f(a) for a in (3, 0.03, 5, 0.05) for f in (math.sin, math.cos)]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-12)
    (sos,) = table("grid(2)", [[0, 0]], 8)
    assert sos.tolist() == [0, 1] * 4


def test_channels_that_cannot_be_shared_evenly() -> None:
    with pytest.raises(UsageError, match=r"grid\(3\) does not share[\s\S]*d_model 32[\s\S]*a multiple of 6"):
        position.make("sinusoidal", 32, 4, structure="grid(3)")
    assert position.make("sinusoidal", 36, 3, structure="grid(3)").structure == parse_structure("grid(3)")


def test_a_table_of_one_position_makes_a_model_without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of the authors' first release: a table is made for one position, and added to every token.

    The model then is that of `none`: a permuted source changes no score. `ape check` must notice, on sequences.
    """
    monkeypatch.setitem(_subjects.EXAMPLES, "grid(n)", ())
    right = Sinusoidal.vectors

    def faulty(self: Sinusoidal, positions: torch.Tensor) -> torch.Tensor:
        return right(self, torch.zeros_like(positions[:, :1]))  # [B, 1, D], which is broadcast over the tokens

    def changed() -> float:
        """The largest change of a score when the source is permuted, with the weights of one seed."""
        generator = torch.Generator().manual_seed(1)
        scheme = position.make("sinusoidal", 32, 4, generator=generator)
        model = Transformer(
            scheme, ids=23, d_ff=64, encoder_layers=2, decoder_layers=2, dropout=0.0, generator=generator
        )
        model = model.double().eval()
        source, target = torch.randint(3, 23, (2, 1, 50), generator=generator)
        at, mask = torch.arange(50)[None], torch.ones(1, 50, dtype=torch.bool)
        other = source[:, torch.randperm(50, generator=generator)]
        scores = [model(ids, at, mask, target, at) for ids in (source, other)]
        return float((scores[0] - scores[1]).detach().abs().max())

    assert changed() > 1e-3
    with monkeypatch.context() as patch:
        patch.setattr(Sinusoidal, "vectors", faulty)
        assert changed() < 1e-12
        broken = [found for found in laws.check("sinusoidal") if not found.holds]
        out, _ = ape("check", "sinusoidal", code=1)
    assert not any(found.trouble for found in broken)
    assert {found.law for found in broken} == {"uniqueness", "reach"}
    assert "11 of 13 rules and laws hold" in out
