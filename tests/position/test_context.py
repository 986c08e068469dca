"""Values that layers share in a forward pass: computed once for each pair of positions, and released after the pass."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from ape_cli import attention, position
from ape_cli.models.transformer import Transformer
from ape_cli.position import AttentionPair, Context

SHARED = {"relative": "vectors", "transformer-xl": "projected", "t5": "terms", "alibi": "penalty"}
IDS = torch.tensor([[5, 6, 7, 8, 9], [3, 4, 9, 8, 7]])


def net(name: str) -> Transformer:
    draws = torch.Generator().manual_seed(4)
    scheme = position.make(name, 16, 2, max_size=3, generator=draws)
    made = Transformer(scheme, ids=12, d_ff=24, encoder_layers=2, decoder_layers=2, dropout=0.0, generator=draws)
    return made.double().eval()


def read(made: Transformer) -> torch.Tensor:
    """5 source tokens from position 1, and 4 target tokens from position 0."""
    source_at, target_at = torch.arange(1, 6)[None], torch.arange(4)[None]
    return made(IDS, source_at, torch.ones_like(IDS, dtype=torch.bool), IDS[:, :4], target_at)


@pytest.mark.parametrize("name", SHARED)
def test_once_for_each_pair_and_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers have three pairs of contexts: encoder, decoder, cross-attention. Another pass has other parameters."""
    made = net(name)
    kind, hook = type(made.scheme), SHARED[name]
    whole = getattr(kind, hook)
    pairs: list[tuple[list, list]] = []

    def counted(self: Any, q_context: Context, k_context: Context) -> Any:
        pairs.append((q_context.positions.tolist(), k_context.positions.tolist()))
        return whole(self, q_context, k_context)

    monkeypatch.setattr(kind, hook, counted)
    source, target = [[1, 2, 3, 4, 5]], [[0, 1, 2, 3]]
    expected = [(source, source), (target, target), (target, source)]
    before = read(made)
    assert pairs == expected
    assert torch.equal(read(made), before)
    assert pairs == 2 * expected
    with torch.no_grad():
        for parameter in made.scheme.parameters():
            parameter.mul_(2)
    assert torch.equal(read(made), before) == (name == "alibi")  # rope has no bias


def test_a_pair_s_own() -> None:
    """Another second context, another order or another function gives another value."""

    def sums(x: Context, y: Context) -> torch.Tensor:
        return x.positions + y.positions

    def differences(x: Context, y: Context) -> torch.Tensor:
        return x.positions - y.positions

    a, b, c = (Context(torch.tensor([[at]])) for at in (1, 20, 300))
    first = a.cached(b, sums)
    assert first.item() == 21
    assert a.cached(b, sums) is first
    assert a.cached(c, sums).item() == 301
    assert a.cached(a, sums).item() == 2
    assert a.cached(b, differences).item() == -19
    assert b.cached(a, differences).item() == 19
    assert Context(torch.tensor([[5]])).cached(b, sums).item() == 25


def test_a_second_that_is_gone_is_not_mistaken_for_a_new_one() -> None:
    """Contexts are identified by their address in memory. A released context must not be confused with a new one."""
    a = Context(torch.tensor([[0]]))
    for at in range(50):
        assert a.cached(Context(torch.tensor([[at]])), lambda x, y: int(y.positions)) == at


def test_nothing_outlives_its_pass() -> None:
    """Values are released at once, not by the garbage collector, because they hold the graph of all layers."""
    scheme = net("t5").scheme
    context = scheme.context(torch.arange(4)[None])
    kept = weakref.ref(context.cached(context, scheme.terms))
    assert kept() is not None
    del context
    assert kept() is None


@pytest.mark.parametrize(
    ("positions", "start"),
    [
        (torch.arange(5)[None], 0),
        (torch.arange(1, 6)[None], 1),
        (torch.arange(300, 302)[None], 300),
        (torch.tensor([[7]]), 7),
        (torch.tensor([[1, 2, 4]]), None),
        (torch.tensor([[3, 2, 1]]), None),
        (torch.tensor([[4, 4]]), None),
        (torch.arange(5).expand(2, 5), None),  # rows may differ, and a check would have to wait for a GPU
        (torch.arange(5)[None, :, None].expand(1, 5, 2), None),  # positions of a product
        (torch.empty(1, 0, dtype=torch.int64), None),
    ],
)
def test_the_start_of_a_line(positions: torch.Tensor, start: int | None) -> None:
    assert Context(positions).start == start


def test_a_part_has_its_own_positions_and_mask() -> None:
    mask = torch.tensor([[True, True, True, False]])
    part = Context(torch.arange(4)[None], mask, causal=True).part(2, 4)
    assert part.positions.tolist() == [[2, 3]]
    assert part.mask is not None
    assert part.mask.tolist() == [[True, False]]
    assert part.causal
    assert Context(torch.arange(4)[None]).part(0, 2).mask is None


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_mask_of_a_link_is_that_of_attention(causal: bool, padded: bool) -> None:
    """The queries are also a part: the last two of four tokens, as when tokens are added one by one."""
    scheme = position.make("none", 4, 1)
    tokens = torch.tensor([[True, True, True, False]]) if padded else None
    whole = scheme.context(torch.arange(1, 5)[None], tokens, causal=causal)
    made, link = attention.AttentionContext.of(scheme, whole, whole), AttentionPair(whole, whole)
    for expected, got in ((made.mask, link.mask), (made.part(2, 4).mask, AttentionPair(whole.part(2, 4), whole).mask)):
        if not causal and not padded:
            assert expected is None
            assert got is None
        else:
            assert torch.equal(torch.broadcast_to(expected, (1, 1, len(got[0, 0]), 4)), got.broadcast_to(1, 1, -1, 4))
