"""ALiBi: a linear penalty on distance, added to the logits.

Source: Press et al. 2022, arXiv:2108.12409, section 3: -m_h |i - j| with m_h = 2^(-8h/H), h = 1..H.
Deviations: |i - j| for i - j, because the encoder looks both ways; also in the attention between decoder
and encoder (the source has a decoder alone); the formula for any H, where the authors' release takes the
slopes of the nearest powers of two if H is none itself.
The term comes after the 1/sqrt(K) scaling.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ape_cli.position import Context, Scheme
from ape_cli.position._offsets import each


class Alibi(Scheme):
    relative = True
    source = "Press et al. 2022, arXiv:2108.12409, section 3"
    unique = False  # as far to the left as to the right is alike
    memory = "H L^2"
    extrapolation = "excellent"

    def slopes(self, device: torch.device | None = None) -> Tensor:
        """m of each head. -> [H], float64"""
        head = torch.arange(1, self.shape.heads + 1, dtype=torch.float64, device=device)
        return 2.0 ** (-8 * head / self.shape.heads)

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """-m |i - j|. -> [B or 1, H, M, N]"""
        return q_context.once(k_context, self.penalty).to(q.dtype)

    def penalty(self, q_context: Context, k_context: Context) -> Tensor:
        def term(offset: Tensor) -> Tensor:
            slopes = self.slopes(offset.device)
            return -(slopes.view(-1, *(1 for _ in offset.shape)) * offset.abs()).float()

        return each(q_context, k_context, term)
