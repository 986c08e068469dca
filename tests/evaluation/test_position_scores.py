"""The score of a scheme between two positions, against closed forms and against a mean over random contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ape_cli import attention, position
from ape_cli.core.errors import ApeError
from ape_cli.evaluation.laws.scheme import reach
from ape_cli.evaluation.position_scores import ADDED, IN_ATTENTION, SHARE, SPREAD, position_scores
from ape_cli.position import Scheme
from ape_cli.position.alibi import Alibi
from ape_cli.reports.pictures._places import places
from ape_cli.structure import Seq

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


def test_t5_is_the_scalar_of_the_offset_with_its_sign() -> None:
    """With 32 buckets in both directions, an offset j - i below 8 has a bucket of its own: |k|, and 16 more ahead."""
    found, scheme = scored(ADDED, "t5")
    scalars = scheme.scalars[0].detach().numpy()  # of the encoder
    for query, key, bucket in ((0, 5, 16 + 5), (5, 0, 5), (2, 3, 16 + 1), (3, 2, 1), (4, 4, 0)):
        np.testing.assert_allclose(found[:, query, key], scalars[:, bucket], atol=1e-12)


def test_learned_is_the_product_of_its_vectors() -> None:
    found, scheme = scored(ADDED, "learned")
    table = scheme.table.detach().numpy()[1:7]
    np.testing.assert_allclose(found[0], table @ table.T / D, atol=1e-12)


def test_relative_is_the_length_of_its_vectors() -> None:
    """The mean of (q w)^2 / K over queries of squared length sqrt(K) is |w|^2 sqrt(K) / K^2."""
    found, scheme = scored(SPREAD, "relative")
    length = scheme.offsets.detach().norm(dim=-1).numpy()  # of the offsets -6 to 6
    np.testing.assert_allclose(found[0], length[offsets(np.arange(6)) + 6] * K**0.25 / K, atol=1e-12)


def test_transformer_xl_is_the_product_of_v_with_the_offset() -> None:
    found, scheme = scored(ADDED, "transformer-xl")
    angles = 10_000.0 ** (-2 * np.arange(D // 2) / D)
    behind = -offsets(np.arange(6))[..., None] * angles  # i - j
    sinusoid = np.stack([np.sin(behind), np.cos(behind)], -1).reshape(6, 6, D)
    w, v = scheme.project.detach().numpy(), scheme.v.detach().numpy()
    np.testing.assert_allclose(found, np.einsum("hk,hkd,ijd->hij", v, w, sinusoid) / K**0.5, atol=1e-6)


def test_orthogonal_tree_is_the_trace_of_the_matrices_of_its_branches() -> None:
    scheme, at = made("orthogonal-tree", decay=0.9)
    found, measure = position_scores(scheme, at)
    left, right = scheme.generators().detach().numpy()  # [H, K, K]
    paths = {1: [], 2: [left], 3: [right], 4: [left, left], 5: [left, right], 6: [right, left], 7: [right, right]}
    apart = np.array([[len(set(_above(x)) ^ set(_above(y))) for y in at] for x in at])
    assert measure == SHARE
    for head in range(H):
        operators = [np.linalg.multi_dot([np.eye(K), np.eye(K), *(m[head] for m in paths[x])]) for x in at.tolist()]
        traces = np.array([[np.trace(a.T @ b) / K for b in operators] for a in operators])
        np.testing.assert_allclose(found[head], 0.9**apart * traces, atol=1e-6)


def _above(heap: int) -> list[int]:
    return [heap] if heap == 1 else [heap, *_above(heap // 2)]


def test_an_operator_of_queries_alone_has_rows_that_are_constant() -> None:
    found, _ = scored(SHARE, "orthogonal", "seq", side="query")
    np.testing.assert_allclose(found, np.broadcast_to(found[:, :, :1], found.shape), atol=1e-12)
    assert np.ptp(found[0, :, 0]) > 0.1


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


def test_positions_have_to_change_both_the_embeddings_and_the_logits() -> None:
    both = Both(position.Shape(32, 4, Seq(), 8, 1.0))  # the sizes that laws measure
    weaker = reach(both, torch.float64)
    assert weaker is not None
    assert weaker > 0.1
    both.weight = 0.0  # the bias still sees positions, and the embeddings do not
    assert reach(both, torch.float64) == 0


ATTENDING = [
    name
    for name in position.names()
    if position.load(name).embed is Scheme.embed and name != "relative" and not position.load(name).overrides("logits")
]


@pytest.mark.parametrize("name", ATTENDING)
def test_it_is_the_mean_over_random_contents(name: str) -> None:
    """Contents are drawn from a sphere, and each comes with its opposite. 2,000 draws leave an error below 0.05."""
    try:
        scheme, at = made(name, decay=0.9)
    except ApeError:
        pytest.skip("no such structure")
    found, measure = position_scores(scheme, at)
    drawn = torch.randn(2_000, 1, 1, K, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    drawn = drawn / drawn.norm(dim=-1, keepdim=True) * K**0.25
    both = torch.cat([drawn, -drawn]).expand(-1, H, len(at), -1)
    context = scheme.context(torch.from_numpy(at)[None], causal=bool(scheme.causal_only))
    logits = attention.logits(scheme, both, both, context, context).mean(0).detach().numpy()
    expected = logits - (measure == ADDED)
    assert np.abs(found - (np.tril(expected) if scheme.causal_only else expected)).max() < 0.05


class Faulty(Alibi):
    """A scheme whose bias is multiplied by what a test sets."""

    def bias(self, *of: Any) -> Any:
        return super().bias(*of) * self.factor


@pytest.mark.parametrize(("factor", "message"), [(torch.nan, "not all finite"), ("", "`bias`.*TypeError")])
def test_a_faulty_bias_is_one_error(factor: Any, message: str) -> None:
    alibi, at = made("alibi")
    scheme = Faulty(alibi.shape)
    scheme.name, scheme.factor = "faulty", factor
    with pytest.raises(ApeError, match=f"(?s){message}"):
        position_scores(scheme, at)
