"""WIRE: values of another implementation, features by hand, and whose tree is read."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ape_cli import attention, position
from ape_cli.core.errors import CombinationError, UsageError
from ape_cli.models.decoder import DecoderOnly
from ape_cli.models.transformer import Transformer
from ape_cli.position.wire import Wire, features_of
from tests.position.golden import GOLDEN

KINDS = ("laplacian", "eigenvectors", "random-walk")


def make(kind: str = "laplacian", d_model: int = 8, heads: int = 2, **options: Any) -> Wire:
    generator = torch.Generator().manual_seed(3)
    scheme = position.make("wire", d_model, heads, generator=generator, features=kind, **options)
    assert isinstance(scheme, Wire)
    return scheme.double()


def features(heap: list[int], kind: str = "laplacian", count: int = 8, branching: int = 2) -> Tensor:
    """float64 [N, m]"""
    return features_of(torch.tensor([heap]), None, kind, count, branching)[0]


def test_values_of_another_implementation() -> None:
    """Its features are float32 and have no sign of their own. No node of its tree has a twin."""
    given = GOLDEN["wire"]
    vectors = torch.tensor(given["eigenvectors"], dtype=torch.float64)[:, 1:]
    assert torch.allclose(features(given["heap"]), vectors * vectors[0].sign(), rtol=0, atol=5e-7)
    assert torch.allclose(features(given["heap"], "eigenvectors").abs(), vectors.abs(), rtol=0, atol=5e-7)
    walk = torch.tensor(given["walk"], dtype=torch.float64)
    assert torch.allclose(features(given["heap"], "random-walk"), walk[:, 1::2], rtol=0, atol=5e-7)
    assert not walk[:, ::2].any()
    scheme = make()
    with torch.no_grad():
        scheme.frequencies.copy_(torch.tensor(given["omega"]).view(2, 2, 8))
    q, k = (torch.tensor(given[x], dtype=torch.float64).view(1, 10, 2, 4).transpose(1, 2) for x in ("q", "k"))
    context = scheme.context(torch.tensor([given["heap"]]))
    expected = torch.tensor(given["logits"], dtype=torch.float64)
    assert torch.allclose(attention.logits(scheme, q, k, context, context)[0], expected, rtol=0, atol=5e-5)


def test_a_path_of_three_nodes_worked_out() -> None:
    """Eigenvalues 0, 1, 3; the root 1, its child 2 and its grandchild 5. A walk from an end is back after two
    steps in half of the cases.
    """
    second, third = math.sqrt(0.5), math.sqrt(1 / 6)
    expected = torch.tensor([[second, third], [0, -2 * third], [-second, third]], dtype=torch.float64)
    assert torch.allclose(features([1, 2, 5], count=2), expected, atol=1e-12)
    assert torch.allclose(features([1, 2, 5], "eigenvectors", 2).abs(), expected.abs(), atol=1e-12)
    walk = torch.tensor([[0.5, 0.5], [1, 1], [0.5, 0.5]], dtype=torch.float64)
    assert torch.allclose(features([1, 2, 5], "random-walk", 2), walk, atol=1e-12)
    assert torch.equal(features([1, 2, 5])[:, 2:], torch.zeros(3, 6))  # there are no more


def test_eigenvectors_span_the_eigenspaces_of_the_laplacian() -> None:
    """A star of four leaves: the eigenvalue 1 three times, and 5."""
    vectors = features([1, 2, 3, 4, 5], "eigenvectors", 6, branching=4)[:, :4]
    laplacian = torch.diag(torch.tensor([4.0, 1, 1, 1, 1])).double()
    laplacian[0, 1:] = laplacian[1:, 0] = -1
    assert torch.allclose(vectors.T @ vectors, torch.eye(4, dtype=torch.float64), atol=1e-12)
    values = torch.diag(torch.tensor([1.0, 1, 1, 5], dtype=torch.float64))
    assert torch.allclose(laplacian @ vectors, vectors @ values, atol=1e-12)
    root = features([1, 2, 3, 4, 5], "laplacian", 6, branching=4)
    assert torch.allclose(root[:, 0], torch.tensor([4.0, -1, -1, -1, -1]).double() / 20**0.5, atol=1e-12)
    assert not root[:, 1:].any()


def test_a_repeated_eigenvalue_is_one_feature() -> None:
    """A star of three leaves, one of which is the root: the eigenvalue 1 twice, and 4."""
    expected = torch.zeros(4, 8, dtype=torch.float64)
    expected[:, 0] = torch.tensor([2.0, 0, -1, -1]) / 6**0.5
    expected[:, 1] = torch.tensor([1.0, -3, 1, 1]) / 12**0.5
    assert torch.allclose(features([1, 2, 4, 5]), expected, atol=1e-7)


def test_a_row_is_the_same_in_any_order_and_with_padding() -> None:
    """Padding is not a node, at any position. Rows of padding and nodes without an edge have no features."""
    at, order = torch.tensor([[1, 2, 3, 4, 5, 10]]), torch.tensor([3, 0, 5, 2, 1, 4])
    padded = torch.cat([at, torch.tensor([[20, 0]])], dim=1).expand(2, -1)
    mask = torch.tensor([[True] * 6 + [False] * 2, [False] * 8])
    for kind in KINDS:
        alone = features_of(at, None, kind, 8, 2)
        assert torch.equal(features_of(at[:, order], None, kind, 8, 2), alone[:, order])
        both = features_of(padded, mask, kind, 8, 2)
        assert torch.equal(both[:1, :6], alone)
        assert not both[0, 6:].any()
        assert not both[1].any()
        assert torch.equal(features_of(padded[:1], mask, kind, 8, 2), both)  # positions that all rows share
        planned = make(kind).plan(torch.tensor([[1, 2, 3, 4, 5, 10, 0]])).tensors[0]  # padding of batches is 0
        assert torch.equal(planned[:, :6], alone)
        assert not features([4, 6], kind).any()
        assert not features([0, 2, 4], kind)[0].any()  # SOS alone is no node


def test_a_target_has_the_features_of_the_source_s_nodes() -> None:
    """At the same heap index. SOS is the root. A node that the source lacks, or has as padding, has no features."""
    scheme = make()
    mask = torch.tensor([[False, True, True, True, True, False]])
    source = scheme.context(torch.tensor([[0, 3, 1, 2, 5, 4]]), mask)
    target = scheme.context(torch.tensor([[0, 2, 4, 5, 6]]), None, True, source).state
    of = source.state[0]
    assert torch.equal(target[0], torch.stack([of[2], of[3], 0 * of[0], of[4], 0 * of[0]]))
    last = scheme.context(torch.tensor([[5]]), None, False, source).state  # the only key, with `memory=last`
    assert torch.equal(last[0], of[4:5])
    whole = scheme.context(torch.tensor([[1, 2, 5]]))
    missing = scheme.context(torch.tensor([[6, 0]]), None, True, whole).state[0]
    assert torch.equal(missing, torch.stack([0 * of[0], whole.state[0, 0]]))
    with pytest.raises(UsageError, match=r"does not know the source's tree[\s\S]*shared_with"):
        scheme.context(torch.tensor([[0, 2]]), causal=True)


def test_the_targets_own_tree_is_not_read() -> None:
    """A later node of the target changes no earlier score. Nodes that the source lacks are alike."""
    scheme = make(d_model=16)
    net = Transformer(scheme, ids=9, d_ff=16, encoder_layers=1, decoder_layers=2, dropout=0.0).double()
    ids = torch.arange(3, 7)[None]
    memory, source = net.encode(ids, torch.tensor([[1, 2, 5, 10]]), ids > 0)
    one, other, within = (net.decode(ids, torch.tensor([[0, 1, 2, last]]), memory, source) for last in (3, 4, 5))
    assert torch.equal(one, other)
    assert torch.equal(one[:, :3], within[:, :3])
    assert not torch.allclose(one[:, 3], within[:, 3])


def test_it_is_refused_without_an_encoder() -> None:
    with pytest.raises(CombinationError, match=r"wire acts only in a model with an encoder[\s\S]*source"):
        DecoderOnly(make(), ids=9, d_ff=8, layers=1, sides=False, dropout=0.0)
