"""Matrix products in which each head has its own matrix.

Shapes: B batch, H heads, N tokens, K channels of a head, L channels of the result.
"""

from __future__ import annotations

import torch
from torch import Tensor


def by_head(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply each head's vectors by the head's own matrix. [B, H, N, K], [H, K, L] -> [B, H, N, L]

    `x @ matrices` would copy the matrices for each row of the batch. This is one batched product over the heads.
    """
    b, h, n, _ = x.shape
    found = torch.bmm(x.transpose(0, 1).reshape(h, b * n, -1), matrices)
    return found.view(h, b, n, -1).transpose(0, 1)
