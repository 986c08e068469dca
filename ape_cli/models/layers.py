"""The layers that all models are made of: pre-norm branches with residual connections, and embeddings.

Shapes: B batch, N source tokens, M target tokens, D channels, V ids, T tokens of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli.attention import Attention, AttentionContext, AttentionKind, Past
from ape_cli.attention._layers import Dropout, LinearLayer, drop, drop_relu
from ape_cli.position import Role, Scheme

Activation = Callable[[Tensor], Tensor]


class FeedForward(nn.Module):
    """Two linear layers with an activation and dropout between them.

    Arguments: `d_model`, outer channels; `d_ff`, inner channels; `dropout`, its probability; `activation`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float, activation: Activation = functional.relu) -> None:
        """Create the linear layers."""
        super().__init__()
        self.inner, self.outer = LinearLayer(d_model, d_ff), LinearLayer(d_ff, d_model)
        self.dropout = dropout
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Apply both layers. [B, N, D] -> the same"""
        x = self.inner(x)
        if self.activation is functional.relu:
            return self.outer(drop_relu(x, self.dropout, self.training))
        return self.outer(drop(self.activation(x), self.dropout, self.training))


class Layer(nn.Module):
    """Self-attention, then (in the decoder) attention to the encoder's output, then a feed-forward network.

    Arguments:
    - `scheme`: the positional encoding, whose shape decides the width and the number of heads; `kind`: of attention;
    - `d_ff`: the inner width of the feed-forward network; `activation`: of this network;
    - `dropout`: the probability for the output of each branch;
    - `crosses`: whether the layer attends to the encoder's output;
    - `attention_dropout`, `ff_dropout`: the probabilities for the attention weights and for the inside of the
      feed-forward network; None means the same as `dropout`;
    - `skip`: the probability that a branch is left out for a row (see `stochastic_depth`);
    - `role`: of the self-attention; `index`: the number of the layer in its stack.
    """

    def __init__(
        self,
        scheme: Scheme,
        kind: AttentionKind,
        *,
        d_ff: int,
        dropout: float,
        crosses: bool = False,
        activation: Activation = functional.relu,
        attention_dropout: float | None = None,
        ff_dropout: float | None = None,
        skip: float = 0.0,
        role: Role = "encoder",
        index: int = 0,
    ) -> None:
        """Create the branches and their norms."""
        super().__init__()
        d_model = scheme.shape.d_model
        self.dropout, self.skip = Dropout(dropout), skip
        forget = dropout if attention_dropout is None else attention_dropout
        self.self_norm, self.self_attention = nn.LayerNorm(d_model), Attention(scheme, forget, kind, role, index)
        if crosses:
            crossing = Attention(scheme, forget, kind, "cross", index)
            self.cross_norm, self.cross_attention = nn.LayerNorm(d_model), crossing
        inside = dropout if ff_dropout is None else ff_dropout
        self.ff_norm, self.ff = nn.LayerNorm(d_model), FeedForward(d_model, d_ff, inside, activation)

    def forward(
        self,
        x: Tensor,
        scheme: Scheme,
        context: AttentionContext,
        memory: Tensor | None = None,
        cross: AttentionContext | None = None,
        past: tuple[Past | None, Past | None] = (None, None),
    ) -> Tensor:
        """Apply all branches. x: [B, M, D] -> the same

        `context`: who attends to whom in x. `memory`: [B, N, D], the encoder's output, and `cross`: who attends to it;
        both or neither are given. `past`: of the two attentions, for tokens before those of x and of `memory`.
        """
        normed = self.self_norm(x)
        x = x + self._branch(self.self_attention(normed, normed, scheme, context, past=past[0]))
        if memory is not None and cross is not None:
            x = x + self._branch(self.cross_attention(self.cross_norm(x), memory, scheme, cross, past=past[1]))
        return x + self._branch(self.ff(self.ff_norm(x)))

    def _branch(self, added: Tensor) -> Tensor:
        """The output of a branch, with dropout and stochastic depth in training. [B, M, D] -> the same"""
        added = self.dropout(added)
        return stochastic_depth(added, self.skip) if self.training else added


def stochastic_depth(added: Tensor, skip: float) -> Tensor:
    """Set the output of a branch to zero for random rows, and scale up the other rows so that its mean stays.

    [B, N, D] -> the same. Source: Huang et al. 2016, arXiv:1603.09382, section 3; scaled in training, not in
    evaluation.
    """
    if not skip:
        return added
    kept = torch.rand(added.shape[0], 1, 1, device=added.device) >= skip
    return added * (kept / (1 - skip)).to(added.dtype)


def initialise(stack: nn.Module, generator: torch.Generator | None) -> None:
    """Draw Xavier-uniform weights for all linear layers, and set their biases to zero.

    The modules of a scheme belong to the scheme, so they are not in the stack.
    """
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)


def lookup(ids: Tensor, table: Tensor) -> Tensor:
    """The rows of a table. int64 [...], [V, D] -> [..., D]"""
    rows: Tensor = _Lookup.apply(ids, table) if table.is_cuda else functional.embedding(ids, table)
    return rows


class _Lookup(torch.autograd.Function):
    """`embedding`, whose backward pass adds up the rows of each id by a matrix product.

    If there are few ids and each occurs thousands of times in a batch, torch's own method, which sorts them, takes
    ten times as long on a GPU.
    """

    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor) -> Tensor:
        """Gather the rows."""
        ctx.save_for_backward(ids)
        ctx.count = len(table)
        return functional.embedding(ids, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        """The gradient of the table."""
        (ids,) = ctx.saved_tensors
        there = torch.arange(ctx.count, device=ids.device)[:, None] == ids.flatten()  # [V, T]
        return None, there.to(grad.dtype) @ grad.flatten(0, -2)
