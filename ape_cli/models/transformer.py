"""The shared encoder-decoder transformer (table 4 of the preprint), and its forward pass under teacher forcing.

It has pre-norm LayerNorm with a final norm, and ReLU. Input and output share the embeddings, which start from
N(0, 1/D). They are scaled by sqrt(D) at the input, so that the channels of a token start with variance 1. The model
works with any `Scheme` and any `AttentionType` of attention, and never depends on the name of one. Training, validation
and evaluation share `forward` and `loss`. `decoder.py` has the model without an encoder.

Shapes: B batch, N source tokens, M target tokens, Q labels, C factors of a product, D channels, V ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ape_cli import attention
from ape_cli.attention import Attention, AttentionContext, AttentionType, KVCache
from ape_cli.attention._layers import Activation, Dropout, FeedForward, affine
from ape_cli.core import user_parts
from ape_cli.core.vocabulary import PAD
from ape_cli.data.batches import Batch
from ape_cli.data.position_plan import PositionPlan
from ape_cli.models.device import forward_pass
from ape_cli.position import Context, Role, Scheme, planner


class Layer(nn.Module):
    """Self-attention, then (in the decoder) attention to the encoder's output, then a feed-forward network.

    Arguments:
    - `scheme`: the positional encoding, whose shape decides the width and the number of heads; `attention_type`;
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
        attention_type: AttentionType,
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
        self.self_norm = nn.LayerNorm(d_model)
        self.self_attention = Attention(scheme, forget, attention_type, role, index)
        if crosses:
            self.cross_norm = nn.LayerNorm(d_model)
            self.cross_attention = Attention(scheme, forget, attention_type, "cross", index)
        inside = dropout if ff_dropout is None else ff_dropout
        self.ff_norm, self.ff = nn.LayerNorm(d_model), FeedForward(d_model, d_ff, inside, activation)

    def forward(
        self,
        x: Tensor,
        scheme: Scheme,
        context: AttentionContext,
        memory: Tensor | None = None,
        cross: AttentionContext | None = None,
        past: tuple[KVCache | None, KVCache | None] = (None, None),
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


class Model(nn.Module, ABC):
    """Base class of all models.

    Arguments: `scheme`, the positional encoding; `attention_type`, None for the default. Each `Attention` of the model
    checks that it takes the scheme.
    """

    sizes_vary: ClassVar[bool] = True  # whether tensor sizes vary from batch to batch, which torch.compile has to know

    def __init__(self, scheme: Scheme, attention_type: AttentionType | None) -> None:
        """Keep the scheme and the kind of attention."""
        super().__init__()
        self.attention_type = attention_type or attention.make()
        self.scheme = scheme


class SequenceModel(Model):
    """Base class of the models for sequences, trees and grids. Input and output share the embeddings.

    Arguments: `ids`, the number of token ids; `dropout`, its probability; `branches_only`, whether it acts only on the
    outputs of branches, and not on embeddings, attention weights and the inside of the feed-forward; `positions_scale`,
    the factor of what the scheme adds to embeddings.
    """

    decoder_norm: nn.LayerNorm

    def __init__(
        self,
        scheme: Scheme,
        attention_type: AttentionType | None,
        ids: int,
        dropout: float,
        branches_only: bool,
        positions_scale: float,
    ) -> None:
        """Create the embeddings. `_draw_embeddings` draws them."""
        super().__init__(scheme, attention_type)
        self.embedding = nn.Parameter(torch.empty(ids, scheme.shape.d_model))
        self.positions_scale = positions_scale
        self.dropout = Dropout(0.0 if branches_only else dropout)

    def _stack(
        self, widths: Sequence[int], attention_type: AttentionType, role: Role, *, dropout: float, crosses: bool = False
    ) -> nn.ModuleList:
        """Layers with the dropout of the model. `widths`: `d_ff` of each layer; `dropout`: of the branches."""
        inside = self.dropout.p
        rates: dict[str, Any] = {"dropout": dropout, "attention_dropout": inside, "ff_dropout": inside}
        return nn.ModuleList(
            Layer(self.scheme, attention_type, d_ff=d_ff, crosses=crosses, role=role, index=i, **rates)
            for i, d_ff in enumerate(widths)
        )

    def _scores(self, x: Tensor) -> Tensor:
        """The scores of the next token. [B, M, D] -> [B, M, V]"""
        return affine(self.decoder_norm(x), self.embedding)

    def _draw_embeddings(self, generator: torch.Generator | None) -> None:
        """Draw the embeddings from N(0, 1/D)."""
        nn.init.normal_(self.embedding, std=self.embedding.shape[1] ** -0.5, generator=generator)

    def embed(self, ids: Tensor, context: Context, added: Tensor | None = None) -> Tensor:
        """The tokens' embeddings with the scheme's encoding.

        ids: int64 [B, N], at positions [B or 1, N] -> [B, N, D]. `added`: a vector for each token, [B, N, D], or None
        """
        x = lookup(ids, self.embedding) * math.sqrt(self.embedding.shape[1])
        x = x if added is None else x + added
        placed = self.scheme.embed(x, context)
        if self.positions_scale != 1.0:
            placed = x + self.positions_scale * (placed - x)
        return self.dropout(placed)

    @abstractmethod
    def encode(self, ids: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Context]:
        """Read the source. ids: int64 [B, N]; positions: [B or 1, N (, C)]; mask: bool [B, N], True for tokens.

        Returns what `decode` needs: the source as vectors, [B, N, D], and the context of its positions.
        """

    @abstractmethod
    def decode(
        self,
        ids: Tensor,
        positions: Tensor,
        memory: Tensor,
        source: Context,
        past: Any = None,
    ) -> Tensor:
        """The scores of the next token after each prefix. ids: int64 [B, M], SOS first -> [B, M, V]

        `positions`: int64 [B or 1, M (, C)]. `memory` and `source` are the results of `encode`. Padding comes after the
        tokens, where no token can see it. The scores at padding have no meaning.

        `past`: what `past()` returned, if tokens are added one by one. Only the first call computes all of its tokens.
        Each later one has a token more, and computes and returns the scores of this token alone.
        """

    @abstractmethod
    def past(self) -> Any:
        """What `decode` keeps of tokens from one call to the next."""


class Transformer(SequenceModel):
    """An encoder-decoder that reads a source and a target prefix, and scores the next target token at every place.

    Arguments: `ids`, the number of token ids; `d_ff`, inner channels of the feed-forward; `d_ff_decoder`, those of the
    decoder's layers, None for the same; `encoder_layers`, `decoder_layers`; `dropout`, its probability;
    `branches_only`, whether it acts only on the outputs of branches, and not on embeddings, attention weights and the
    inside of the feed-forward; `positions_scale`, the factor of what the scheme adds to embeddings; `memory`, the
    states of the encoder that the decoder reads: `all`, or that of the `last` token; `attention_type`, None for the
    default; `generator` of the random weights.

    A kind of attention that mixes queries would look ahead in the decoder. Then only the encoder has it, and the
    decoder's two attentions are the default kind. Raises `UsageError` if the kind cannot take the scheme, or if such
    a kind is given without encoder layers.
    """

    def __init__(
        self,
        scheme: Scheme,
        *,
        ids: int,
        d_ff: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float,
        d_ff_decoder: int | None = None,
        branches_only: bool = False,
        positions_scale: float = 1.0,
        memory: str = "all",
        attention_type: AttentionType | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Create the layers and draw their weights."""
        super().__init__(scheme, attention_type, ids, dropout, branches_only, positions_scale)
        self.memory = memory
        d, chosen = scheme.shape.d_model, self.attention_type
        if not encoder_layers:
            attention.check_without_encoder(chosen)
        behind = attention.make() if chosen.mixes_queries else chosen
        self.encoder = self._stack([d_ff] * encoder_layers, chosen, "encoder", dropout=dropout)
        widths = [d_ff_decoder or d_ff] * decoder_layers
        self.decoder = self._stack(widths, behind, "decoder", dropout=dropout, crosses=True)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self._draw_embeddings(generator)
        for stack in (self.encoder, self.decoder):
            initialise(stack, generator)

    def encode(
        self, ids: Tensor, positions: Tensor, mask: Tensor, plan: PositionPlan | None = None
    ) -> tuple[Tensor, Context]:
        """Read the source (see `SequenceModel.encode`). Returns the encoder's output, [B, N, D], and the context.

        `plan`: of the positions, or None.
        """
        context = self.scheme.context(positions, mask, plan=plan)
        x = self.embed(ids, context)
        every = AttentionContext.of(self.scheme, context, context)
        for layer in self.encoder:
            x = layer(x, self.scheme, every)
        return self.encoder_norm(x), context

    def decode(
        self,
        ids: Tensor,
        positions: Tensor,
        memory: Tensor,
        source: Context,
        past: list[tuple[KVCache, KVCache]] | None = None,
        plan: PositionPlan | None = None,
        label_places: Tensor | None = None,
    ) -> Tensor:
        """The scores of the next token after each prefix, [B, M, V] (see `SequenceModel.decode`).

        `plan`: of the positions, or None. `label_places`: int64 [B, Q], the tokens whose scores are returned, as
        [B, Q, V]; None for all.
        """
        begin = past[0][0].count if past else 0
        context = self.scheme.context(positions, None, True, source, plan)
        new, read, keys = context, memory, source
        if self.memory == "last":
            assert source.mask is not None
            last = source.mask.sum(1, keepdim=True) - 1
            at = source.positions.expand(len(memory), *source.positions.shape[1:])
            read, keys = taken(memory, last), self.scheme.context(taken(at, last), None, False, source)
        if begin:
            new = self.scheme.context(positions[:, begin:], None, True, source)
            read = read[:, :0]  # its keys and values are in `past`
        x = self.embed(ids[:, begin:], new)
        earlier, cross = AttentionContext.of(self.scheme, new, context), AttentionContext.of(self.scheme, new, keys)
        if begin:  # the last token sees all of them
            earlier = replace(earlier, causal=False)
        for layer, kept in zip(self.decoder, past or repeat((None, None)), strict=False):
            x = layer(x, self.scheme, earlier, read, cross, kept)
        return self._scores(x if label_places is None else taken(x, label_places))

    def past(self) -> list[tuple[KVCache, KVCache]]:
        """What `decode` keeps of tokens: for each layer, of its two attentions."""
        return [(KVCache(), KVCache()) for _ in self.decoder]

    def forward(
        self,
        source_ids: Tensor,
        source_positions: Tensor,
        source_mask: Tensor,
        input_ids: Tensor,
        input_positions: Tensor,
        label_places: Tensor | None = None,
        source_plan: PositionPlan | None = None,
        input_plan: PositionPlan | None = None,
    ) -> Tensor:
        """The logits of the labels under teacher forcing. -> [B, Q, V]

        The source has ids and positions, int64 [B, N], and a mask, bool [B, N]. The input of the decoder has ids and
        positions, int64 [B, M]. `label_places`: int64 [B, Q], the tokens of this input that have a label; None for all.
        The plans are those of both positions; either both or none are given.
        """
        memory, source = self.encode(source_ids, source_positions, source_mask, source_plan)
        return self.decode(input_ids, input_positions, memory, source, plan=input_plan, label_places=label_places)


def forward(model: Model, batch: Batch, precision: str, parallel: nn.Module | None = None) -> Tensor:
    """The teacher-forced scores of a batch, of its labels. -> [B, Q, V]

    `parallel`: the module that wraps the model for a process group and is called in its place.
    Raises `ApeError` for an exception in a user's own scheme or attention.
    """
    module = model if parallel is None else parallel
    with user_parts.explained(), forward_pass(precision, batch.labels.device, model.scheme.shape.d_model):
        return module(*batch.inputs)


def taken(x: Tensor, indices: Tensor) -> Tensor:
    """The tokens at these places. [B, L, ...], int64 [B, Q] -> [B, Q, ...]"""
    return x[torch.arange(len(x), device=x.device)[:, None], indices]


def to_device(batch: Batch, model: Model, device: torch.device) -> Batch:
    """A batch on the device of its model. For a GPU it has the plans that are computed on the host."""
    return (batch.planned(planner(model.scheme)) if device.type == "cuda" else batch).to(device)


def loss(scores: Tensor, labels: Tensor, ignore_index: int = PAD, smoothing: float = 0.0) -> Tensor:
    """The cross-entropy in nats, summed over the labels that are not `ignore_index`. [B, Q, V], int64 [B, Q] -> scalar

    `smoothing`: the share of a label's probability that is spread evenly over all ids (Szegedy et al. 2016,
    arXiv:1512.00567).
    """
    flat = scores.flatten(0, 1).float()
    return functional.cross_entropy(
        flat, labels.flatten(), ignore_index=ignore_index, reduction="sum", label_smoothing=smoothing
    )
