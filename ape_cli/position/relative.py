r"""Relative: a learned vector for each offset, multiplied with the query. Offsets beyond k are clipped.

Source: Shaw et al. 2018, arXiv:1803.02155, section 3.2, equation 5:

$$
e_{ij} = \frac{q_i (k_j + a_{ij})}{\sqrt{K}}, \quad a_{ij} = w[\text{clip}(j - i, -k, k)]
$$

The heads share the vectors. $k$ is `max_size`. The term itself includes the scaling by $1/\sqrt{K}$.

Deviations: the layers share the vectors, and the term also acts in the attention between decoder and encoder, as in the
paper's comparison (the source defines it for self-attention). The value-side term of equation 3 is left out; the
source's ablation (table 3) found that it adds nothing.

Shapes: B batch, H heads, M queries, N keys, L distinct offsets, K channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._offsets import Offsets


class Relative(Scheme):
    """A learned vector for each offset up to `max_size`, multiplied with the query."""

    relative = True
    bounded = True
    beyond = "offsets beyond share the last vector"
    dot_only = True
    synonyms = ("shaw", "rpr")
    source = "Shaw et al. 2018, arXiv:1803.02155, section 3.2"
    content_dependent = True
    memory = "H L^2"

    def __init__(self, shape: Shape) -> None:
        """Draw the vectors."""
        super().__init__(shape)
        table = torch.randn(2 * shape.max_size + 1, shape.head_dim, generator=shape.generator)
        self.offsets = nn.Parameter(table * shape.head_dim**-0.5)  # [2k+1, K], from offset -k to k

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """q_i w[clip(j - i)] / sqrt(K), added after the scaling of the logits. q: [B, H, M, K] -> [B, H, M, N]"""
        offsets, w = q_context.cached(k_context, self.vectors)
        return offsets.spread((q * q.shape[-1] ** -0.5) @ w.to(q.dtype).T)

    def vectors(self, q_context: Context, k_context: Context) -> tuple[Offsets, Tensor]:
        """The distinct offsets, and the vector of each: [L, K]."""
        k = self.shape.max_size
        offsets = Offsets.of(q_context, k_context, clip=k)
        return offsets, nn.functional.embedding(offsets.distinct + k, self.offsets)
