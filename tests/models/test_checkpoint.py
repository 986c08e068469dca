"""Checkpoints: an optimiser continues as if it had not stopped, whatever the memory layout of a parameter is."""

from __future__ import annotations

import torch
from torch import nn

from ape_cli.models.checkpoint import pack, unpack


class Transposed(nn.Module):
    """A parameter whose rows are not stored one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).view(3, 4).T)


def step(net: Transposed, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    (net.weight * torch.arange(12.0).view(4, 3)).square().sum().backward()
    optimiser.step()


def test_moments_have_the_layout_of_their_parameter() -> None:
    whole, resumed = Transposed(), Transposed()
    one, other = (torch.optim.AdamW(net.parameters(), lr=0.1, fused=True) for net in (whole, resumed))
    step(whole, one)
    stored = pack(whole, whole.state_dict(), one)  # type: ignore[arg-type]
    stored = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in stored.items()}
    unpack(stored, resumed, other)  # type: ignore[arg-type]
    for _ in range(3):
        step(whole, one)
        step(resumed, other)
    assert torch.equal(whole.weight, resumed.weight)
