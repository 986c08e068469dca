"""The shared encoder-decoder transformer (table 4 of the preprint), and its forward pass under teacher forcing.

It has pre-norm LayerNorm with a final norm, and ReLU. Input and output share the embeddings, which start from
N(0, 1/D). They are scaled by sqrt(D) at the input, so that the channels of a token start with variance 1. The model
works with any `Scheme` and any `AttentionKind` of attention, and never depends on the name of one. Training, validation
and evaluation share `forward` and `loss`. `decoder.py` has the model without an encoder.

Shapes: B batch, N source tokens, M target tokens, Q labels, C factors of a product, D channels, V ids.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ape_cli import attention
from ape_cli.attention import Attention, AttentionContext, AttentionKind, Past
from ape_cli.attention._layers import Dropout
from ape_cli.core import own_parts
from ape_cli.core.vocabulary import PAD
from ape_cli.data.batches import Batch
from ape_cli.data.position_plan import PositionPlan
from ape_cli.models.device import forward_pass
from ape_cli.models.layers import Layer, initialise, lookup
from ape_cli.position import Context, Role, Scheme, planner
from ape_cli.position._matmul import affine


class Model(nn.Module, ABC):
    """Base class of all models.

    Arguments: `scheme`, the positional encoding; `kind`, the kind of attention, None for the default. Each `Attention`
    of the model checks that the kind takes the scheme.
    """

    sizes_vary: ClassVar[bool] = True  # whether tensor sizes vary from batch to batch, which torch.compile has to know

    def __init__(self, scheme: Scheme, kind: AttentionKind | None) -> None:
        """Keep the scheme and the kind of attention."""
        super().__init__()
        self.kind = kind or attention.make()
        self.scheme = scheme

    @abstractmethod
    def attentions(self, source: int, target: int) -> Iterator[tuple[Attention, int, int, bool]]:
        """Yield each attention, with its numbers of queries and of keys, and whether it is causal.

        `source` and `target` are the numbers of tokens of the longest row of a batch.
        """


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
        kind: AttentionKind | None,
        *,
        ids: int,
        dropout: float,
        branches_only: bool,
        positions_scale: float,
    ) -> None:
        """Create the embeddings. `_draw_embeddings` draws them."""
        super().__init__(scheme, kind)
        self.embedding = nn.Parameter(torch.empty(ids, scheme.shape.d_model))
        self.positions_scale = positions_scale
        self.dropout = Dropout(0.0 if branches_only else dropout)

    def _stack(
        self, widths: Sequence[int], kind: AttentionKind, role: Role, *, dropout: float, crosses: bool = False
    ) -> nn.ModuleList:
        """Layers with the dropout of the model. `widths`: `d_ff` of each layer; `dropout`: of the branches."""
        inside = self.dropout.p
        rates: dict[str, Any] = {"dropout": dropout, "attention_dropout": inside, "ff_dropout": inside}
        return nn.ModuleList(
            Layer(self.scheme, kind, d_ff=d_ff, crosses=crosses, role=role, index=i, **rates)
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
    inside of the feed-forward; `positions_scale`, the factor of what the scheme adds to embeddings; `kind`, the kind of
    attention, None for the default; `generator` of the random weights.

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
        kind: AttentionKind | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Create the layers and draw their weights."""
        super().__init__(
            scheme,
            kind,
            ids=ids,
            dropout=dropout,
            branches_only=branches_only,
            positions_scale=positions_scale,
        )
        d, kind = scheme.shape.d_model, self.kind
        if not encoder_layers:
            attention.check_without_encoder(kind)
        behind = attention.make() if kind.mixes_queries else kind
        self.encoder = self._stack([d_ff] * encoder_layers, kind, "encoder", dropout=dropout)
        widths = [d_ff_decoder or d_ff] * decoder_layers
        self.decoder = self._stack(widths, behind, "decoder", dropout=dropout, crosses=True)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self._draw_embeddings(generator)
        for stack in (self.encoder, self.decoder):
            initialise(stack, generator)

    def attentions(self, source: int, target: int) -> Iterator[tuple[Attention, int, int, bool]]:
        """Those of the encoder, and two of each layer of the decoder."""
        for layer in self.encoder:
            assert isinstance(layer, Layer)
            yield layer.self_attention, source, source, False
        for layer in self.decoder:
            assert isinstance(layer, Layer)
            yield layer.self_attention, target, target, True
            yield layer.cross_attention, target, source, False

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
        past: list[tuple[Past, Past]] | None = None,
        plan: PositionPlan | None = None,
        label_places: Tensor | None = None,
    ) -> Tensor:
        """The scores of the next token after each prefix, [B, M, V] (see `SequenceModel.decode`).

        `plan`: of the positions, or None. `label_places`: int64 [B, Q], the tokens whose scores are returned, as
        [B, Q, V]; None for all.
        """
        begin = past[0][0].count if past else 0
        context = self.scheme.context(positions, causal=True, beside=source, plan=plan)
        new, read = context, memory
        if begin:
            new = self.scheme.context(positions[:, begin:], causal=True, beside=source)
            read = memory[:, :0]  # its keys and values are in `past`
        x = self.embed(ids[:, begin:], new)
        earlier, cross = AttentionContext.of(self.scheme, new, context), AttentionContext.of(self.scheme, new, source)
        if begin:  # the last token sees all of them
            earlier = replace(earlier, causal=False)
        for layer, kept in zip(self.decoder, past or repeat((None, None)), strict=False):
            x = layer(x, self.scheme, earlier, read, cross, kept)
        return self._scores(x if label_places is None else taken(x, label_places))

    def past(self) -> list[tuple[Past, Past]]:
        """What `decode` keeps of tokens: for each layer, of its two attentions."""
        return [(Past(), Past()) for _ in self.decoder]

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
    with own_parts.explained(), forward_pass(precision, batch.labels.device, model.scheme.shape.d_model):
        return module(*batch.inputs)


def taken(x: Tensor, place: Tensor) -> Tensor:
    """The tokens at these places. [B, L, ...], int64 [B, Q] -> [B, Q, ...]"""
    return x[torch.arange(len(x), device=x.device)[:, None], place]


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
