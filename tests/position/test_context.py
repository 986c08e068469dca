"""Values that layers share in a forward pass: computed once for each pair of positions, and released after the pass."""

from __future__ import annotations

import pytest
import torch

from ape_cli.position import Context


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
