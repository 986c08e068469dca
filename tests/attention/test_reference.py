"""The whole model with every kind of attention agrees with a plain transformer that has the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ape_cli.models.transformer import Transformer
from tests.attention.plain import KINDS, OPTIONS, H, K, mixture, net, scheme_of
from tests.models.test_reference import SOURCE, TARGET, operator, reference, steps_between

PLACES = {"rope": ([1, 2, 3, 4, 5], [0, 1, 2, 3]), "orthogonal-tree": ([1, 2, 3, 6, 7], [0, 1, 2, 3])}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLACES)
def test_the_model_is_the_plain_one(kind: str, name: str) -> None:
    """The row has padding, because a longer row is in the batch. Clustered attention is used in the encoder only."""
    for decay in [1.0, 0.5]:
        check_model(kind, name, decay)


@torch.no_grad()
def check_model(kind: str, name: str, decay: float) -> None:
    made = net(kind, scheme_of(name, kind, decay), layers=2).eval()
    source_at, target_at = PLACES[name]

    def attend(made: Transformer, layer: torch.nn.Module, x: Tensor, y: Tensor, at: list, of: list, causal: bool):
        scheme = made.scheme
        here = "dot" if kind == "clustered" and at == target_at else kind
        seen = [[n for n in range(len(of)) if n <= m or not causal] for m in range(len(at))]
        c = [[scheme.shape.decay ** steps_between(scheme, p, s) for s in of] for p in at]
        q, k, v = (project(z).view(-1, H, K) for project, z in ((layer.query, x), (layer.key, y), (layer.value, y)))
        heads = []
        for h in range(H):
            left, right = ([operator(scheme, p, h) for p in places] for places in (at, of))
            options = OPTIONS.get(here, {})
            heads.append(mixture(here, q[:, h], k[:, h], v[:, h], left, right, seen, c, **options))
        return layer.out(torch.cat(heads, dim=-1))

    expected = reference(made, SOURCE, source_at, TARGET, target_at, attend)
    ids = torch.tensor([[*SOURCE, 0, 0], [4, 5, 6, 7, 8, 9, 10]])
    at = torch.tensor([[*source_at, 0, 0], [1, 2, 3, 4, 5, 6, 7]])
    target, to = torch.tensor([[*TARGET, 0], [1, 9, 8, 7, 6]]), torch.tensor([[*target_at, 0], [0, 1, 2, 3, 4]])
    assert torch.allclose(made(ids, at, ids != 0, target, to)[0, :4], expected, atol=1e-9)
