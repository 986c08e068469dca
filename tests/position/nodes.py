"""Nodes of trees, and terms that schemes add to scores, for tests."""

from __future__ import annotations

import torch

from ape_cli import attention, position


def steps(x: int, y: int, branching: int = 2) -> tuple[int, int]:
    """The steps up and down on the way from node x to node y, walked one by one. 0 is read as the root."""
    x, y = max(x, 1), max(y, 1)
    up = down = 0
    while x != y:  # a child has a larger heap index than its parent
        if x > y:
            x, up = (x - 2) // branching + 1, up + 1
        else:
            y, down = (y - 2) // branching + 1, down + 1
    return up, down


def make(name: str, max_size: int = 4, structure: str = "tree(2)", heads: int = 3) -> position.Scheme:
    generator = torch.Generator().manual_seed(1)
    return position.make(name, 8 * heads, heads, structure, max_size, generator=generator).double()


def terms(
    scheme: position.Scheme, queries: list[int], keys: list[int], causal: tuple[bool, bool] = (True, True)
) -> torch.Tensor:
    """The scores of zero vectors. -> [H, M, N]"""
    q_context = scheme.context(torch.tensor([queries]), causal=causal[0])
    k_context = scheme.context(torch.tensor([keys]), causal=causal[1])
    q, k = (torch.zeros(1, scheme.shape.heads, len(at), 8, dtype=torch.float64) for at in (queries, keys))
    return attention.logits(scheme, q, k, q_context, k_context)[0]
