"""Tree: a stack of one-hot branches, most recent step first, each level weighted by a power of p.

Source: Shiv and Quirk 2019, "Novel positional encodings to enable tree-based transformers", section 3;
seeds: D_i pushes the one-hot of child i and drops the oldest entry, U pops. With n the branching and k
the depth a vector is [c_1, p c_2, p^2 c_3, ...], n*k numbers; P copies with learnable p's of their own
stand side by side, P = D // (n*k), and the remaining channels are zero. p = tanh(a free parameter).
Bounded: k is `max_size`; a node deeper than that keeps its last k steps. SOS and the root are zero.
Applied once, at the input of the encoder and of the decoder; attention is unchanged.

Scale, ours (published forms disagree on the width): copy j is multiplied by sqrt((1 - p_j^2) n k / 2),
so that a long path, all copies together, is about as long as the sinusoidal vector, sqrt(D/2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.structure import level


class Tree(Scheme):
    structures = ("tree(k)",)
    bounded = True
    source = "Shiv and Quirk 2019, NeurIPS 32, section 3"

    branching = 2

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        width = self.branching * shape.max_size
        self.copies = shape.d_model // width
        if not self.copies:
            raise UsageError(
                "the tree scheme does not fit into the model",
                got=f"{self.branching} branches x depth {shape.max_size}, d_model {shape.d_model}",
                allowed="branches x depth at most d_model",
                fix="a larger d_model or a smaller max_size",
            )
        # p between 0.5 and 0.95 to begin with, all different
        start = torch.linspace(0.5, 0.95, self.copies) if self.copies > 1 else torch.tensor([0.7])
        self.weights = nn.Parameter(torch.atanh(start))  # [P]

    def stack(self, positions: Tensor) -> Tensor:
        """The unweighted stacks: entry s is the one-hot of the s-th last step. [B, N] -> [B, N, k, n]"""
        step = torch.arange(self.shape.max_size, device=positions.device)
        branch = (positions[:, :, None] >> step) & 1
        taken = step < level(positions)[:, :, None]
        one_hot = torch.stack([1 - branch, branch], dim=-1)
        return one_hot * taken[..., None]

    def prepare(self, positions: Tensor) -> Tensor:
        """The vectors. [B, N] -> [B, N, D]"""
        p = torch.tanh(self.weights)
        step = torch.arange(self.shape.max_size, device=positions.device)
        scale = ((1 - p**2) * (self.branching * self.shape.max_size / 2)).sqrt()
        weight = p[:, None] ** step * scale[:, None]  # [P, k]
        copies = self.stack(positions)[:, :, None].to(p.dtype) * weight[:, :, None]  # [B, N, P, k, n]
        flat = copies.flatten(2)
        return nn.functional.pad(flat, (0, self.shape.d_model - flat.shape[-1]))

    def embed(self, x: Tensor, context: Context) -> Tensor:
        return x + context.state.to(x.dtype)
