r"""Tree: a stack of one-hot branches, the most recent step first, with levels weighted by powers of p.

Source: Shiv and Quirk 2019, "Novel positional encodings to enable tree-based transformers", section 3. With branching
$n$ and depth $k$, a position is a stack of $k$ one-hot vectors of $n$ entries. $D_i$ pushes the one-hot vector of child
$i$ and drops the oldest entry. $U$ pops the newest entry. Both are affine (`down`, `up`), and $U D_i = I$ while the
stack has room. The encoding is

$$
[c_1, p c_2, p^2 c_3, …]
$$

with $n k$ numbers. $P$ copies, each with its own learnable $p$, are put side by side: as many as fit into $D$, or
`copies` of them. The remaining channels are zero. $p$ is the tanh of a free parameter. SOS and the root are zero. The
encoding is applied once, at the input of the encoder and of the decoder. Attention is unchanged.

The scheme is bounded: $k$ is `max_size`, and a deeper node keeps its last $k$ steps.

The scale is ours, because published forms disagree on the width: copy $j$ is multiplied by
$\sqrt{(1 - p_j^2) n k / 2}$. The vector of a long path, with all its copies, is then about as long as the sinusoidal
vector, $\sqrt{D/2}$.

Shapes: B batch, N tokens, P copies, k depth, n branches, D channels of the model.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.position._rotation import wide
from ape_cli.structure import Tree


class ShivQuirkTree(Scheme):
    """A stack of one-hot branches for each node of a tree, added to the embeddings.

    Argument: `copies`, the number of weighted copies, or 0 for as many as fit. Raises `UsageError` if they do not fit
    into the channels.
    """

    structures = ("tree(k)",)
    bounded = True
    variants = ({"copies": 1},)
    beyond = "deeper nodes keep their last steps"
    option_help: ClassVar[dict[str, str]] = {
        "copies": "Number of copies, each with its own p; 0 for as many as fit.",
    }
    synonyms = ("shiv-quirk", "tree-pe")
    source = "Shiv and Quirk 2019, NeurIPS 32, section 3"
    memory = "L D"

    def __init__(self, shape: Shape, copies: int = 0) -> None:
        """Check that the copies fit, and create their weights."""
        super().__init__(shape)
        assert isinstance(shape.structure, Tree)
        self.tree = shape.structure
        width = self.tree.branching * shape.max_size
        limit = shape.d_model // width
        if not limit or not 0 <= copies <= limit:
            got = f"{copies or 1} x {self.tree.branching} branches x depth {shape.max_size}, d_model {shape.d_model}"
            fix = f"copies=1 to {limit}, or 0 for as many as fit" if limit else "a larger d_model or a smaller max_size"
            what, allowed = "the tree scheme does not fit into the model", "copies x branches x depth at most d_model"
            raise UsageError(what, got=got, allowed=allowed, fix=fix)
        self.copies = copies or limit
        # at first each p is different, between 0.5 and 0.95
        start = torch.linspace(0.5, 0.95, self.copies) if self.copies > 1 else torch.tensor([0.7])
        self.weights = nn.Parameter(torch.atanh(start))  # [P]

    def down(self, branch: int) -> tuple[Tensor, Tensor]:
        """D_i of an unweighted stack as an affine map, x -> A x + b.

        Returns A, float64 [n k, n k], and b, float64 [n k].
        """
        n, size = self.tree.branching, self.tree.branching * self.shape.max_size
        push = torch.zeros(size, dtype=torch.float64)
        push[branch] = 1.0
        return torch.diag(torch.ones(size - n, dtype=torch.float64), -n), push

    def up(self) -> tuple[Tensor, Tensor]:
        """U of an unweighted stack as an affine map, x -> A x + b.

        Returns A, float64 [n k, n k], and b, float64 [n k].
        """
        a, push = self.down(0)
        return a.T, torch.zeros_like(push)

    def stack(self, positions: Tensor) -> Tensor:
        """The unweighted stacks: entry s is the one-hot vector of the s-th last step.

        int64 [B, N] -> int64 [B, N, k, n]
        """
        heap = positions.clamp(min=1)
        left = self.tree.level(heap)  # number of steps that are not popped yet
        child = torch.arange(self.tree.branching, device=positions.device)
        entries = []
        for _ in range(self.shape.max_size):
            taken = left > 0
            entries.append((self.tree.branch(heap)[..., None] == child) & taken[..., None])
            heap = torch.where(taken, self.tree.ancestor(heap, 1), heap)
            left = left - taken.long()
        return torch.stack(entries, dim=-2).long()

    def vectors(self, positions: Tensor) -> Tensor:
        """The vectors of positions. int64 [B, N] -> float32 or wider [B, N, D]"""
        p = torch.tanh(wide(self.weights))
        step = torch.arange(self.shape.max_size, device=positions.device)
        scale = ((1 - p**2) * (self.tree.branching * self.shape.max_size / 2)).sqrt()
        weight = p[:, None] ** step * scale[:, None]  # [P, k]
        copies = self.stack(positions)[:, :, None].to(p.dtype) * weight[:, :, None]  # [B, N, P, k, n]
        flat = copies.flatten(2)
        return nn.functional.pad(flat, (0, self.shape.d_model - flat.shape[-1]))

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Add each position's vector to the tokens. [B, N, D] -> the same"""
        return x + self.vectors(context.positions).to(x.dtype)
