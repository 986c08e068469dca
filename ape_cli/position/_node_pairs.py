"""Learned scalars for pairs of nodes of a tree, which `tree-distance` and `tree-path` add to the logits.

A scheme sorts pairs into kinds, by the path from the query to the key. Each head has a scalar for each kind. The layers
share the scalars. Encoder, decoder and the attention between them have their own, as in `t5`. They start at 0.02 times
a normal draw.

Shapes: B batch, H heads, M queries, N keys, C kinds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ape_cli.position import Context, Scheme, Shape
from ape_cli.structure import Tree

_ENCODER, _DECODER, _CROSS = range(3)


class NodePairs(Scheme):
    """A learned scalar for each head and kind of pair, added to the logits. A subclass defines the kinds."""

    structures = ("tree(k)",)
    relative = True
    bounded = True
    unique = False  # a step up does not tell from which child it comes
    memory = "H L^2"

    def __init__(self, shape: Shape) -> None:
        """Draw the scalars."""
        super().__init__(shape)
        assert isinstance(shape.structure, Tree)
        self.tree = shape.structure
        self.depth = min(shape.max_size, self.tree.max_depth)  # the greatest depth whose pairs have their own kinds
        start = torch.randn(3, shape.heads, self.kinds(), generator=shape.generator)
        self.scalars = nn.Parameter(0.02 * start)  # [encoder, decoder, cross; H; C]

    def kinds(self) -> int:
        """The number of kinds, C."""
        raise NotImplementedError

    def kind(self, query: Tensor, key: Tensor) -> Tensor:
        """The kind of each pair, from 0 to C - 1. int64 heap indices, broadcast; 0 is SOS -> int64"""
        raise NotImplementedError

    def bias(self, q: Tensor, q_context: Context, k_context: Context) -> Tensor:
        """The scalar of each pair's kind, after the 1/sqrt(K) scaling. -> [B or 1, H, M, N] in the queries' dtype"""
        terms: Tensor = q_context.cached(k_context, self.terms)
        return terms.to(q.dtype)

    def terms(self, q_context: Context, k_context: Context) -> Tensor:
        """The scalars of all pairs, which all layers share. -> [B or 1, H, M, N]"""
        part = (_DECODER if k_context.causal else _CROSS) if q_context.causal else _ENCODER
        kind = self.kind(q_context.positions[:, :, None], k_context.positions[:, None, :])
        index = kind.flatten(1)[:, None].expand(-1, self.shape.heads, -1)
        # the backward pass of `gather` takes a twentieth of the time of that of `embedding` on a CPU
        return self.scalars[part].expand(len(kind), -1, -1).gather(2, index).unflatten(2, kind.shape[1:])
