"""Learned positions: each position has a row of the table, and all positions beyond it share the last row."""

from __future__ import annotations

import torch

from ape_cli import position


def test_each_position_has_its_row() -> None:
    scheme = position.make("learned", d_model=16, heads=2, max_size=5)
    x = torch.randn(1, 4, 16)
    found = scheme.embed(x, scheme.context(torch.tensor([[0, 3, 5, 90]])))
    assert torch.equal(found - x, (x + scheme.table[[0, 3, 5, 5]])[0][None] - x)
    assert scheme.table.shape == (6, 16)
    assert scheme.table.unique(dim=0).shape == (6, 16)
