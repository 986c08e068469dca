"""The score of a scheme between two positions, against closed forms and against a mean over random contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ape_cli import attention, position
from ape_cli.evaluation.position_scores import ADDED, IN_ATTENTION, SHARE, SPREAD, position_scores
from ape_cli.position import Scheme
from ape_cli.position.alibi import Alibi
from ape_cli.reports.pictures._places import places

D, H, K = 16, 2, 8
SIZES = {"length": 6, "depth": 2, "side": 3}


def made(name: str, structure: str | None = None, decay: float = 1.0, **options: Any) -> tuple[Scheme, np.ndarray]:
    """A small scheme and its places."""
    size = 2 if name == "tree" else 6
    generator = torch.Generator().manual_seed(3)
    scheme = position.make(
        name, D, H, structure=structure, max_size=size, decay=decay, generator=generator, **options
    ).double()
    kinds = {"seq": "length", "tree": "depth", "grid": "side"}
    kind = kinds.get(scheme.structure.expression.split("(")[0])
    return scheme, places(scheme.structure, {kind: SIZES[kind]} if kind else {})


def scored(measure: str, name: str, structure: str | None = None, **options: Any) -> tuple[np.ndarray, Any]:
    """The scores of a small scheme, which are of this kind, and the scheme."""
    scheme, at = made(name, structure, **options)
    scores, kind = position_scores(scheme, at)
    assert kind == measure
    return scores, scheme


def offsets(at: np.ndarray) -> np.ndarray:
    return at[None, :] - at[:, None]


def test_rope_is_the_mean_of_the_cosines() -> None:
    found, _ = scored(SHARE, "rope")
    angles = 10_000.0 ** (-2 * np.arange(K // 2) / K)
    expected = np.cos(offsets(np.arange(6))[..., None] * angles).mean(-1)
    assert found.shape == (H, 6, 6)
    np.testing.assert_allclose(found, np.stack([expected] * H), atol=1e-12)


def test_sinusoidal_is_half_of_the_mean_of_the_cosines_of_all_channels() -> None:
    found, _ = scored(ADDED, "sinusoidal")
    angles = 10_000.0 ** (-2 * np.arange(D // 2) / D)
    np.testing.assert_allclose(found[0], np.cos(offsets(np.arange(6))[..., None] * angles).mean(-1) / 2, atol=1e-12)
    assert len(found) == 1  # it acts before there are heads


def test_the_locality_bias_scales_the_product_of_embeddings() -> None:
    """The mean over contents is c^distance times the mean without the bias. The diagonal has distance 0."""
    plain, local = (position_scores(*made("sinusoidal", decay=decay))[0][0] for decay in (1.0, 0.5))
    distance = np.abs(offsets(np.arange(6)))
    np.testing.assert_allclose(local + 1, (plain + 1) * 0.5**distance, atol=1e-9)


def test_alibi_is_its_slopes() -> None:
    found, _ = scored(ADDED, "alibi")
    distance = np.abs(offsets(np.arange(6)))
    np.testing.assert_allclose(found, np.stack([-distance / 16, -distance / 256]), atol=1e-7)  # 2^-4 and 2^-8


def test_learned_is_the_product_of_its_vectors() -> None:
    found, scheme = scored(ADDED, "learned")
    table = scheme.table.detach().numpy()[1:7]
    np.testing.assert_allclose(found[0], table @ table.T / D, atol=1e-12)


def test_relative_is_the_length_of_its_vectors() -> None:
    """The mean of (q w)^2 / K over queries of squared length sqrt(K) is |w|^2 sqrt(K) / K^2."""
    found, scheme = scored(SPREAD, "relative")
    length = scheme.offsets.detach().norm(dim=-1).numpy()  # of the offsets -6 to 6
    np.testing.assert_allclose(found[0], length[offsets(np.arange(6)) + 6] * K**0.25 / K, atol=1e-12)


def test_without_an_encoding_nothing_is_added() -> None:
    assert not position_scores(*made("none"))[0].any()
    found, _ = scored(ADDED, "none", decay=0.5)
    np.testing.assert_allclose(found[0], 0.5 ** np.abs(offsets(np.arange(6))) - 1, atol=1e-6)


class Both(Alibi):
    """Adds positions to the embeddings too."""

    weight = 1.0

    def embed(self, x: torch.Tensor, context: position.Context) -> torch.Tensor:
        """Tokens and positions."""
        return x + self.weight * context.positions[..., None]


def test_a_scheme_that_acts_twice_is_described_by_both_and_says_what_is_scored() -> None:
    alibi, at = made("alibi")
    both = Both(alibi.shape).double()
    assert (both.properties.injection, both.properties.recurrence) == ("embeddings, attention", "once, every layer")
    found, measure = position_scores(both, at)
    assert measure == ADDED + IN_ATTENTION
    np.testing.assert_array_equal(found, position_scores(alibi, at)[0])


ATTENDING = [
    name
    for name in position.names()
    if position.load(name).embed is Scheme.embed and name != "relative" and not position.load(name).overrides("logits")
]


@pytest.mark.parametrize("name", ATTENDING)
def test_it_is_the_mean_over_random_contents(name: str) -> None:
    """Contents are drawn from a sphere, and each comes with its opposite. 2,000 draws leave an error below 0.05."""
    scheme, at = made(name, decay=0.9)
    found, measure = position_scores(scheme, at)
    drawn = torch.randn(2_000, 1, 1, K, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    drawn = drawn / drawn.norm(dim=-1, keepdim=True) * K**0.25
    both = torch.cat([drawn, -drawn]).expand(-1, H, len(at), -1)
    context = scheme.context(torch.from_numpy(at)[None], causal=bool(scheme.causal_only))
    logits = attention.logits(scheme, both, both, context, context).mean(0).detach().numpy()
    expected = logits - (measure == ADDED)
    assert np.abs(found - (np.tril(expected) if scheme.causal_only else expected)).max() < 0.05
