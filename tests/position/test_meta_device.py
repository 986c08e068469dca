"""Schemes made on the meta device compute the same as others once they have weights."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.core.errors import UsageError
from ape_cli.evaluation.laws._subjects import examples
from ape_cli.position import Scheme
from ape_cli.position.matrix_power import MatrixPower
from tests.position.test_contract import READS, D, H, K, make, places


def spoiled(module: Any) -> Any:
    """The module without values, as on the CPU after the meta device."""
    module.to_empty(device="cpu")
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data.fill_(77)
    return module


def results(scheme: Scheme, at: Tensor) -> list[Tensor]:
    """Embeddings and scores, at positions [B, N] or [B, N, C]."""
    generator = torch.Generator().manual_seed(4)
    q, k = torch.randn(2, 3, H, at.shape[1], K, generator=generator, dtype=torch.float64)
    x, context = (
        torch.randn(3, at.shape[1], D, generator=generator, dtype=torch.float64),
        scheme.context(at, causal=not scheme.needs_encoder),
    )
    scores = attention.logits(scheme, q, k, context, context, content=scheme.content("decoder_0", x))
    return [scheme.embed(x, context), scores]


@pytest.mark.parametrize(("name", "expression"), READS)
def test_a_scheme_has_its_values_once_it_has_weights(name: str, expression: str) -> None:
    """Made on the meta device, or sent there. The first drawing of numbers there imports modules, for some seconds."""
    at, first = places(expression), expression == examples(name)[0]

    def built(seed: int, **options: Any) -> Scheme:
        scheme = make(name, expression, seed, **options)
        scheme.attach("decoder", 0)
        return scheme.double()

    for options in ({}, *(position.load(name).variants if first else ())):
        scheme = built(3, **options)
        with torch.device("meta"):
            unassigned, emptied = built(9, **options), spoiled(built(9, **options))
        unassigned.load_state_dict(scheme.state_dict(), assign=True)
        moved = spoiled(copy.deepcopy(scheme).to("meta"))
        for one in (emptied, moved):
            one.load_state_dict(scheme.state_dict())
        expected = results(scheme, at)
        for one in (unassigned, emptied, moved):
            assert all(map(torch.equal, results(one, at), expected)), options


def test_given_matrices_and_points() -> None:
    """They are arguments, so they keep their values. On the meta device they have none."""
    given = {"matrix": torch.eye(4).flip(0), "point": torch.tensor([1.0, 2.0, 3.0, 4.0])}
    with torch.device("meta"):
        scheme = position.make("matrix-power", d_model=4, heads=1, **given)
    assert isinstance(scheme, MatrixPower)
    assert spoiled(scheme).vectors(torch.tensor([[0, 1]])).tolist() == [[[1, 2, 3, 4], [4, 3, 2, 1]]]
    with pytest.raises(UsageError, match=r"bad point[\s\S]*on meta"):
        position.make("matrix-power", d_model=4, heads=1, point=torch.ones(4, device="meta"))
