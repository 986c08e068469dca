r"""Sinusoidal: a fixed vector of sines and cosines of the position, added to the embeddings.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5:

$$
PE(p, 2i) = \sin(p / 10000^{2i/D}), \quad PE(p, 2i+1) = \cos(p / 10000^{2i/D})
$$

SOS is position 0. The encoding is applied once, at the input of the encoder and of the decoder. Attention is unchanged.

In $n$ dimensions (`--structure 'grid(2)'`), each axis has the table of $D/n$ channels for its coordinate, rows before
columns. For $n = 2$, $PE(x, y, 2i) = \sin(x / 10000^{4i/D})$, and the same for $y$ from channel $D/2$. Source: Wang and
Liu 2019, arXiv:1908.11415. He et al. 2022, arXiv:2111.06377, use the same numbers with the channels in a different
order. Without `--structure`, grids are read along their linearisation, as trees are. This is the flat baseline of the
paper.

Shapes: B batch, N tokens, D channels of the model.
"""

from __future__ import annotations

from torch import Tensor

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._rotation import sinusoids


class Sinusoidal(Scheme):
    """Fixed sines and cosines of positions, added to the embeddings.

    Raises `UsageError` if the axes of a grid cannot share the channels evenly.
    """

    structures = ("seq", "grid(n)")
    flat = True
    synonyms = ("absolute", "sinusoid", "sin-cos")
    source = "Vaswani et al. 2017, arXiv:1706.03762, section 3.5"
    isometric = True
    memory = "L D"
    extrapolation = "moderate"

    def __init__(self, shape: Shape) -> None:
        """Check that the axes share the channels evenly."""
        super().__init__(shape)
        axes = shape.structure.width
        if shape.d_model % (2 * axes):
            what, got = f"{shape.structure.expression} does not share the channels evenly", f"d_model {shape.d_model}"
            raise UsageError(what, got=got, allowed=f"a multiple of {2 * axes}: pairs of channels for {axes} axes")

    def vectors(self, positions: Tensor) -> Tensor:
        """The vectors of positions, one axis after the other.

        int64 [B or 1, N] or [B or 1, N, axes] -> float64 [B or 1, N, D]
        """
        axes = self.structure.width
        coordinates = positions.reshape(*positions.shape[:2], axes)  # a single coordinate gets an axis too
        return sinusoids(coordinates, self.shape.d_model // axes).flatten(2)  # [B or 1, N, axes, D / axes] -> [., N, D]

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Add each position's vector to the tokens. [B, N, D] -> the same"""
        return x + self.vectors(context.positions).to(x.dtype)
