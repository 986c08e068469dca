"""Shaw's relative term: computed pair by pair, clipped, and divided by sqrt(K)."""

from __future__ import annotations

import torch

from ape_cli import attention, position


def test_against_the_definition() -> None:
    scheme = position.make("relative", d_model=16, heads=2, max_size=3).double()
    q, k = torch.randn(2, 2, 2, 9, 8, dtype=torch.float64)
    q_at, k_at = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8]]), torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9]])
    found = attention.logits(scheme, q, k, scheme.context(q_at), scheme.context(k_at))
    for b in range(2):
        for h in range(2):
            for m in range(9):
                for n in range(9):
                    offset = max(-3, min(3, int(k_at[0, n] - q_at[0, m])))
                    vector = k[b, h, n] + scheme.offsets[offset + 3]
                    assert torch.isclose(found[b, h, m, n], q[b, h, m] @ vector / 8**0.5)
