r"""Learned: a free vector for each position, added to the embeddings.

Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; "Learned" in table 3 of the preprint.

Positions 0 (SOS) to `max_size` have vectors of their own; all positions beyond use the last vector. (The source
truncates its sequences there.) The encoding is applied once, at the input of the encoder and of the decoder, which
share the table. Attention is unchanged. The vectors start with the length of sinusoidal ones, $\sqrt{D/2}$, so that
they are not small relative to the tokens.

Shapes: B batch, N tokens, D channels of the model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape


class Learned(Scheme):
    """A learned vector for each position up to `max_size`, added to the embeddings."""

    bounded = True
    beyond = "positions beyond share the last vector"
    synonyms = ("trainable",)
    source = "Gehring et al. 2017, arXiv:1705.03122, section 3.1"
    memory = "L D"
    extrapolation = "poor"

    def __init__(self, shape: Shape) -> None:
        """Draw the table of vectors."""
        super().__init__(shape)
        table = torch.randn(shape.max_size + 1, shape.d_model, generator=shape.generator)
        self.table = nn.Parameter(table * 0.5**0.5)  # [max_size + 1, D]

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Add each position's vector to the tokens. [B, N, D] -> the same"""
        at = context.positions.clamp(max=self.shape.max_size)
        return x + nn.functional.embedding(at, self.table).to(x.dtype)
