"""Terms of offsets: consecutive positions, whose pairs lie on diagonals, compared with a lookup of each pair."""

from __future__ import annotations

import pytest
import torch

from ape_cli.position import Context
from ape_cli.position._offsets import Offsets

# numbers of queries and keys, and positions of the first query and key; (0, 1) is cross-attention
SIZES = [(1, 1), (1, 2), (1, 6), (2, 1), (6, 1), (2, 2), (3, 7), (7, 3), (6, 6)]
STARTS = [(0, 1), (1, 1), (0, 0), (4, 300), (9, 2)]


def run(start: int, count: int, rows: int = 1) -> torch.Tensor:
    """Consecutive positions, in one row or in several equal rows. -> [rows, count]"""
    return torch.arange(start, start + count).expand(rows, -1)


@pytest.mark.parametrize(("ask", "answer"), STARTS)
def test_each_pair_has_the_term_of_its_offset(ask: int, answer: int) -> None:
    for m, n in SIZES:
        check_terms(m, n, ask, answer)


def check_terms(m: int, n: int, ask: int, answer: int) -> None:
    """Compare with the definition, pair by pair, and with a gather of all pairs, including the gradient."""
    line = Offsets.of(Context(run(ask, m)), Context(run(answer, n)))
    rows = Offsets.of(Context(run(ask, m, 2)), Context(run(answer, n, 2)))
    assert line.which is None
    assert rows.which is not None
    expected = sorted({j - i for i in range(ask, ask + m) for j in range(answer, answer + n)})
    assert line.distinct.tolist() == rows.distinct.tolist() == expected

    draws = torch.Generator().manual_seed(1)
    terms = torch.randn(2, 3, m, len(expected), dtype=torch.float64, generator=draws, requires_grad=True)
    found, gathered = line.spread(terms), rows.spread(terms)
    assert found.shape == (2, 3, m, n)
    for i in range(m):
        for j in range(n):
            offset = (answer + j) - (ask + i)
            assert torch.equal(found[:, :, i, j], terms[:, :, i, expected.index(offset)])
    assert torch.equal(found, gathered)
    weights = torch.randn(found.shape, dtype=torch.float64, generator=draws)
    one, other = (torch.autograd.grad((x * weights).sum(), terms)[0] for x in (found, gathered))
    assert torch.equal(one, other)


def test_what_is_not_consecutive_is_gathered() -> None:
    at, line = torch.tensor([[3, 1, 4]]), run(2, 4)
    offsets = Offsets.of(Context(at), Context(line))
    assert offsets.which is not None
    spread = offsets.spread(offsets.distinct.expand(1, 1, 3, -1))
    assert torch.equal(spread[0, 0], line - at.T)
