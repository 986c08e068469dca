"""Tree with the powers of p as in the authors' first release, where they do not follow the steps of the path.

A stack of k steps and n branches has n k entries, those of the last step first. `tree` gives entry e the power of its
step, p^floor(e / n). There, the powers p^0, ..., p^(k-1) are repeated n times, so that entry e has p^(e mod k).

Shapes: B batch, N tokens, P copies, k depth, n branches, D channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position.tree import ShivQuirkTree


class TreeInterleaved(ShivQuirkTree):
    """A stack of one-hot branches, with powers of p that are repeated for each branch."""

    source = "commit 6644480 of the preprint's authors' code"

    def prepare(self, positions: Tensor) -> Tensor:
        """The vectors of positions. int64 [B, N] -> [B, N, D]"""
        n, k = self.tree.branching, self.shape.max_size
        p = torch.tanh(self.weights)
        power = torch.arange(n * k, device=positions.device) % k
        scale = ((1 - p**2) * (n * k / 2)).sqrt()
        weight = p[:, None] ** power * scale[:, None]  # [P, n k]
        flat = (self.stack(positions).flatten(2)[:, :, None].to(p.dtype) * weight).flatten(2)
        return nn.functional.pad(flat, (0, self.shape.d_model - flat.shape[-1]))
