"""Learned: a free vector for each position, added to the embeddings.

Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; the "Learned" of the paper's table 3.
Bounded: there are vectors for the positions 0 (SOS) to `max_size`; a position beyond has the last one's
(the source knows none, as its sequences are cut there). Applied once, at the input of the encoder and of
the decoder, one table for both; attention is unchanged.
Vectors start as long as sinusoidal ones, sqrt(D/2), so that neither is drowned by the tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape


class Learned(Scheme):
    bounded = True
    beyond = "positions beyond share the last vector"
    source = "Gehring et al. 2017, arXiv:1705.03122, section 3.1"
    memory = "L D"
    extrapolation = "poor"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        table = torch.randn(shape.max_size + 1, shape.d_model, generator=shape.generator)
        self.table = nn.Parameter(table * 0.5**0.5)  # [max_size + 1, D]

    def embed(self, x: Tensor, context: Context) -> Tensor:
        at = context.positions.clamp(max=self.shape.max_size)
        return x + nn.functional.embedding(at, self.table).to(x.dtype)
