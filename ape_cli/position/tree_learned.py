r"""Tree learned: a learned vector for each node of the tree, added to the embeddings.

Source: none. This is `learned` (Gehring et al. 2017, arXiv:1705.03122, section 3.1) for tree nodes instead of
places in a sequence. It is a control for the schemes that compose a position from its path: it reads the same positions
without their structure.

The root and all nodes down to `depth` have vectors of their own. A deeper node has the vector of its ancestor at this
depth. By default `depth` is the size (`max_size`), or the greatest depth with at most 2,047 nodes: 10 in binary trees.
The encoding is applied once, at the input of the encoder and of the decoder, which share the table. Attention is
unchanged. SOS is read as the root. At the start, the vectors are as long as sinusoidal ones, $\sqrt{D/2}$.

A vector is trained only if its node occurs in the training data. If few trees are deep, most vectors of the last
levels stay random.

Shapes: B batch, N tokens, D channels of the model.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ape_cli.core.errors import UsageError
from ape_cli.position import Context, Scheme, Shape
from ape_cli.structure import Tree

_USUAL, _MOST = 2_047, 1_000_000  # rows of a table: at most by default, and at most


class TreeLearned(Scheme):
    """A learned vector for each node of the tree down to a depth, added to the embeddings.

    Argument: `depth`, the greatest depth of nodes with vectors of their own; 0 for `max_size`, or less if there are
    more than 2,047 nodes. Raises `UsageError` if it is deeper than the size, or has too many nodes.
    """

    structures = ("tree(k)",)
    bounded = True
    option_help: ClassVar[dict[str, str]] = {
        "depth": "Greatest depth of nodes with their own vectors; 0 for max_size or at most 2,047 nodes.",
    }
    variants = ({"depth": 2},)
    beyond = "deeper nodes share the vector of their deepest ancestor that has one"
    synonyms = ("node-embedding",)
    source = "Gehring et al. 2017, arXiv:1705.03122, section 3.1, for nodes instead of places"
    memory = "L D"

    def __init__(self, shape: Shape, depth: int = 0) -> None:
        """Draw the table of vectors."""
        super().__init__(shape)
        assert isinstance(shape.structure, Tree)
        self.tree = shape.structure
        if not 0 <= depth <= self._deepest(_MOST):
            allowed = f"1 to {self._deepest(_MOST)}: at most max_size, and at most {_MOST:,} nodes; 0 for the default"
            raise UsageError("bad depth", got=depth, allowed=allowed, fix="leave depth out")
        self.depth = depth or self._deepest(_USUAL)
        self.unique = self.depth >= min(shape.max_size, self.tree.max_depth)
        table = torch.randn(self.tree.level_start(self.depth + 1) - 1, shape.d_model, generator=shape.generator)
        self.table = nn.Parameter(table * 0.5**0.5)  # [nodes, D], the root first

    def _deepest(self, rows: int) -> int:
        """The greatest depth, up to the size, at which a table has at most this number of rows."""
        depths = range(min(self.shape.max_size, self.tree.max_depth) + 1)
        return max(depth for depth in depths if self.tree.level_start(depth + 1) - 1 <= rows)

    def row(self, positions: Tensor) -> Tensor:
        """The row of each node, or of its deepest ancestor that has one. int64 [B, N] -> int64 [B, N]"""
        heap = positions.clamp(min=1)
        return self.tree.ancestor(heap, (self.tree.level(heap) - self.depth).clamp(min=0)) - 1

    def embed(self, x: Tensor, context: Context) -> Tensor:
        """Add each node's vector to the tokens. [B, N, D] -> the same"""
        return x + nn.functional.embedding(self.row(context.positions), self.table).to(x.dtype)
