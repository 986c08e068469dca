"""ALiBi: slopes by hand and from another implementation, any number of heads, a penalty in both directions or one."""

from __future__ import annotations

import torch

from ape_cli import attention, position
from ape_cli.position.alibi import Alibi, slopes
from tests.position.golden import GOLDEN


def make(heads: int, **options: bool) -> Alibi:
    scheme = position.make("alibi", d_model=8 * heads, heads=heads, **options)
    assert isinstance(scheme, Alibi)
    return scheme


def test_slopes_by_hand() -> None:
    assert slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert torch.allclose(slopes(3), 2.0 ** torch.tensor([-8 / 3, -16 / 3, -8], dtype=torch.float64))


def test_slopes_of_another_implementation() -> None:
    for heads, expected in GOLDEN["alibi"]["slopes"].items():
        assert torch.allclose(slopes(int(heads)), torch.tensor(expected, dtype=torch.float64), rtol=1e-6)


def test_penalty_by_hand() -> None:
    scheme = make(2)
    q = torch.zeros(1, 2, 3, 8, dtype=torch.float64)
    context = scheme.context(torch.tensor([[0, 1, 5]]))
    apart = torch.tensor([[0, 1, 5], [1, 0, 4], [5, 4, 0]])
    found = attention.logits(scheme, q, q, context, context)
    assert torch.equal(found[0, 0], -apart / 16)
    assert torch.equal(found[0, 1], -apart / 256)


def test_causal_penalises_only_keys_behind_in_the_decoder() -> None:
    """The encoder keeps the symmetric penalty, and there is none between decoder and encoder."""
    scheme, symmetric = make(2, causal=True), make(2)
    q = torch.zeros(1, 2, 3, 8, dtype=torch.float64)
    at = torch.tensor([[0, 1, 5]])
    encoder, decoder = scheme.context(at), scheme.context(at, causal=True)
    behind = torch.tensor([[0, 0, 0], [1, 0, 0], [5, 4, 0]])
    found = attention.logits(scheme, q, q, decoder, decoder)
    assert torch.equal(found[0], torch.stack([-behind / 16, -behind / 256]).double())
    expected = attention.logits(symmetric, q, q, symmetric.context(at), symmetric.context(at))
    assert torch.equal(attention.logits(scheme, q, q, encoder, encoder), expected)
    assert scheme.bias(q, decoder, encoder) is None
    between = attention.logits(symmetric, q, q, symmetric.context(at, causal=True), symmetric.context(at))
    assert torch.equal(between, expected)


def test_causal_changes_no_score_that_a_decoder_sees() -> None:
    scheme, symmetric = make(4, causal=True), make(4)
    q, k = torch.randn(2, 2, 4, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    at = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [3, 4, 8, 9, 20, 21, 300]])
    one, other = (s.context(at, causal=True) for s in (scheme, symmetric))
    found = attention.logits(scheme, q, k, one, one)
    assert torch.equal(found.tril(), attention.logits(symmetric, q, k, other, other).tril())


def test_positions_may_be_interpolated() -> None:
    scheme = make(2)
    context = scheme.context(torch.tensor([[0.0, 0.5, 2.25]]))
    found = attention.logits(scheme, *torch.zeros(2, 1, 2, 3, 8), context, context)
    assert found[0, 0, 1].tolist() == [-0.5 / 16, 0.0, -1.75 / 16]
