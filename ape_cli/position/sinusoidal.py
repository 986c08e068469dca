"""Sinusoidal: a fixed vector of sines and cosines of the position, added to the embeddings.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5: PE(p, 2i) = sin(p / 10000^(2i/D)) and
PE(p, 2i+1) = cos(p / 10000^(2i/D)), sine and cosine side by side. SOS is position 0.
Applied once, at the input of the encoder and of the decoder; attention is unchanged.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.position import Context, Scheme
from ape_cli.position._rotation import sinusoids


class Sinusoidal(Scheme):
    source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5"
    isometric = True
    memory = "L D"
    extrapolation = "moderate"

    def prepare(self, positions: Tensor) -> Tensor:
        """The table's rows for these positions. -> [B or 1, N, D], float64"""
        return sinusoids(positions, self.shape.d_model)

    def embed(self, x: Tensor, context: Context) -> Tensor:
        return x + context.state.to(x.dtype)
