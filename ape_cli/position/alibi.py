"""ALiBi: a linear penalty on distance, added to the logits.

Source: Press et al. 2022, arXiv:2108.12409, section 3: -m_h |i - j| with m_h = 2^(-8h/H), h = 1..H.
Deviations: the distance is |i - j| instead of i - j, because the encoder looks both ways. The term also acts in the
attention between decoder and encoder (the source has only a decoder). The formula is used for any H, whereas the
authors' release takes the slopes of the nearest powers of two if H is not a power of two.
The term comes after the 1/sqrt(K) scaling.

Shapes: B batch, H heads, M queries, N keys, K channels of a head. Positions are 0-based steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.position import Context, Scheme
from ape_cli.position._offsets import each


class Alibi(Scheme):
    """A linear penalty on the distance between query and key, with a fixed slope for each head."""

    relative = True
    synonyms = ("linear-bias",)
    source = "Press et al. 2022, arXiv:2108.12409, section 3"
    unique = False  # equal distances to the left and to the right are encoded alike
    memory = "H L^2"
    extrapolation = "excellent"

    def slopes(self, device: torch.device | None = None) -> Tensor:
        """The slope m of each head. -> float64 [H]"""
        head = torch.arange(1, self.shape.heads + 1, dtype=torch.float64, device=device)
        return 2.0 ** (-8 * head / self.shape.heads)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """-m |i - j|, after the 1/sqrt(K) scaling, in the dtype of the queries. q: [B, H, M, K] -> [B or 1, H, M, N]"""
        return q_context.cached(k_context, self.penalty).to(q.dtype)

    def penalty(self, q_context: Context, k_context: Context) -> Tensor:
        """The penalty -m |i - j|, which all layers share. -> float32 [B or 1, H, M, N]"""

        def term(offset: Tensor) -> Tensor:
            slopes = self.slopes(offset.device)
            return -(slopes.view(-1, *(1 for _ in offset.shape)) * offset.abs()).float()

        return each(q_context, k_context, term)
