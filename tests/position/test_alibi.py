"""ALiBi: slopes by hand and from another implementation, any number of heads, a penalty in both directions or one."""

from __future__ import annotations

from typing import Any

import torch

from ape_cli import attention, position
from ape_cli.position.alibi import Alibi, slopes
from tests.position.golden import GOLDEN


def make(heads: int, **options: Any) -> Alibi:
    scheme = position.make("alibi", d_model=8 * heads, heads=heads, **options)
    assert isinstance(scheme, Alibi)
    return scheme


def formula(scheme: position.Scheme, head: int, i: int, j: int) -> float:
    """The term of a query at i and a key at j, if the number of heads is a power of two."""
    return -abs(i - j) * 2 ** (-8 * (head + 1) / scheme.shape.heads)


def test_slopes_by_hand() -> None:
    assert slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert torch.allclose(slopes(3), 2.0 ** torch.tensor([-8 / 3, -16 / 3, -8], dtype=torch.float64))


def test_slopes_of_another_implementation() -> None:
    for heads, expected in GOLDEN["alibi"]["slopes"].items():
        assert torch.allclose(slopes(int(heads)), torch.tensor(expected, dtype=torch.float64), rtol=1e-6)


def test_slopes_of_the_release() -> None:
    """Of 6, 10 and 12 heads, in both schemes that have them."""
    for name, expected in GOLDEN["alibi"]["press"].items():
        heads = int(name)
        for scheme in (make(heads, slopes="press"), position.make("shear", 8 * heads, heads, slopes="press")):
            zero = torch.zeros(1, heads, 2, 8, dtype=torch.float64)
            context = scheme.context(torch.tensor([[0, 1]]), causal=True)
            found = -attention.logits(scheme, zero, zero, context, context)[0, :, 1, 0]
            assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-7)


def test_slopes_of_the_release_are_the_formula_for_powers_of_two_and_else_distinct() -> None:
    for heads in range(1, 40):
        found = slopes(heads, kind="press")
        assert len(found.unique()) == len(found) == heads
        assert torch.equal(found, slopes(heads)) == (heads.bit_count() == 1)


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
