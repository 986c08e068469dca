"""A decoder-only transformer: source and target are one causal sequence, and the target is what is predicted.

Its layers are those of the encoder-decoder (`transformer.py`), without attention between two stacks. Each target
follows directly after its own source. The first token of the target, SOS, separates the two, so there is no new id.
Positions along the sequence continue: the target's first token has the position after that of the source's last token.
Coordinates of trees, grids and rings are those of the data on both sides, so a node of the source and one of the target
may have the same position. If there are such coordinates (`sides`), a learned vector tells the two sides apart. With
the scheme `none` and a sequence, the model is NoPE (Kazemnejad et al. 2023, arXiv:2305.19466).

In training, a batch has whole sequences, with padding only at the end (`data/collation.py`). If tokens are added one by
one, the keys and values of each row are moved to the end, so that the next token follows directly after them. Padding
is then at the beginning, and hidden. So the last tokens are always the last keys, and what a scheme adds up between a
key and a query has no padding in it.

Shapes: B batch, N source tokens, M target tokens, Q labels, L tokens of both, C factors of a product, D channels, V
ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ape_cli import attention
from ape_cli.attention import AttentionContext, AttentionType, KVCache
from ape_cli.data.position_plan import PositionPlan
from ape_cli.models.transformer import SequenceModel, initialise, taken
from ape_cli.position import Context, Scheme


class DecoderOnly(SequenceModel):
    """A decoder that reads a source and a target prefix as one sequence, and scores the next token of the target.

    Arguments: `ids`, the number of token ids; `d_ff`, inner channels of the feed-forward, of all `layers` or of each;
    `sides`, whether a learned vector tells source and target apart; `dropout`, `branches_only`, `positions_scale`,
    `attention_type` and `generator`, as for `Transformer`.

    Raises `UsageError` if the kind of attention cannot take the scheme, or mixes queries, so that it would look ahead,
    and if the scheme needs an encoder.
    """

    def __init__(
        self,
        scheme: Scheme,
        *,
        ids: int,
        d_ff: int | Sequence[int],
        layers: int,
        sides: bool,
        dropout: float,
        branches_only: bool = False,
        positions_scale: float = 1.0,
        attention_type: AttentionType | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Create the layers and draw their weights."""
        super().__init__(scheme, attention_type, ids, dropout, branches_only, positions_scale)
        attention.check_without_encoder(self.attention_type, type(scheme))
        d = scheme.shape.d_model
        self.sides = nn.Parameter(torch.empty(2, d)) if sides else None  # of the source and of the target
        widths = [d_ff] * layers if isinstance(d_ff, int) else d_ff
        assert len(widths) == layers
        self.decoder = self._stack(widths, self.attention_type, "decoder", dropout=dropout)
        self.decoder_norm = nn.LayerNorm(d)
        self._draw_embeddings(generator)
        if self.sides is not None:
            nn.init.normal_(self.sides, generator=generator)  # as large as the scaled embeddings
        initialise(self.decoder, generator)

    def encode(self, ids: Tensor, positions: Tensor, mask: Tensor) -> tuple[Tensor, Context]:
        """The embedded source, [B, N, D], which no layer has read yet, and its context."""
        context = self.scheme.context(positions, mask, causal=True)
        return self.embed(ids, context, None if self.sides is None else self.sides[0]), context

    def decode(
        self,
        ids: Tensor,
        positions: Tensor,
        memory: Tensor,
        source: Context,
        past: list[KVCache] | None = None,
    ) -> Tensor:
        """The scores of the next token after each prefix, [B, M, V] (see `SequenceModel.decode`)."""
        rows, source_length = memory.shape[:2]
        assert source.mask is not None
        lengths = source.mask.sum(1)
        begin = past[0].count - source_length if past and past[0].count else 0
        new = self.scheme.context(positions[:, begin:], None, True, source)
        x = self.embed(ids[:, begin:], new, None if self.sides is None else self.sides[1])
        source_positions, target_positions = (at.expand(rows, *at.shape[1:]) for at in (source.positions, positions))
        if begin:
            assert past is not None
            keys = self.scheme.context(
                _joined(source_positions, target_positions, lengths, to_end=True),
                _joined(source.mask, torch.ones_like(ids, dtype=torch.bool), lengths, to_end=True),
                True,
                source,
            )
            # the last token sees all of them
            context = replace(AttentionContext.of(self.scheme, new, keys), causal=False)
            return self._scores(self._layers(x, context, past))
        context = self._causal(
            self.scheme.context(_joined(source_positions, target_positions, lengths), None, True, source)
        )
        x = self._layers(_joined(memory, x, lengths), context, past)
        for kept in past or ():
            kept.move_to_end(lengths + ids.shape[1])
        indices = lengths[:, None] + torch.arange(ids.shape[1], device=ids.device)
        return self._scores(taken(x, indices))

    def past(self) -> list[KVCache]:
        """What `decode` keeps of tokens, for each layer."""
        return [KVCache() for _ in self.decoder]

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        input_indices: Tensor,
        label_places: Tensor | None = None,
        plan: PositionPlan | None = None,
    ) -> Tensor:
        """The logits of the labels under teacher forcing. -> [B, Q, V]

        ids: int64 [B, L], each target directly after its source; positions: int64 [B or 1, L (, C)].
        `input_indices`: int64 [B, M], the place in the sequence of each token of the target. `label_places`: int64
        [B, Q], the tokens of the target that have a label; None for all. `plan`: of the positions.
        """
        context = self.scheme.context(positions, causal=True, plan=plan)
        side = None
        if self.sides is not None:
            is_target = torch.arange(ids.shape[1], device=ids.device) >= input_indices[:, :1]  # bool [B, L]
            side = torch.where(is_target[..., None], self.sides[1], self.sides[0])
        x = self._layers(self.embed(ids, context, side), self._causal(context))
        return self._scores(taken(x, input_indices if label_places is None else input_indices.gather(1, label_places)))

    def _causal(self, context: Context) -> AttentionContext:
        """The context of causal attention among tokens."""
        return AttentionContext.of(self.scheme, context, context)

    def _layers(self, x: Tensor, context: AttentionContext, past: list[KVCache] | None = None) -> Tensor:
        """The result of all layers. x: [B, L, D] -> the same"""
        kept: list[Any] = list(past) if past else [None] * len(self.decoder)
        for layer, cache in zip(self.decoder, kept, strict=True):
            x = layer(x, self.scheme, context, past=(cache, None))
        return x


def _joined(source: Tensor, target: Tensor, lengths: Tensor, *, to_end: bool = False) -> Tensor:
    """Source and target of each row without a gap between them. [B, N, ...], [B, M, ...] -> [B, N + M, ...]

    lengths: int64 [B], the number of tokens of each source. Padding comes at the end, or before the source if
    `to_end`. It is a repetition of other tokens.
    """
    both, source_length = torch.cat([source, target], dim=1), source.shape[1]
    index, gap = torch.arange(both.shape[1], device=both.device), (source_length - lengths)[:, None]
    if to_end:
        return taken(both, torch.where(index < source_length, (index - gap) % source_length, index))
    return taken(both, torch.where(index < lengths[:, None], index, (index + gap).clamp(max=both.shape[1] - 1)))
