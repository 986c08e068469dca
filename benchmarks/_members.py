"""Training steps of S transformers of one shape, each with its own weights and batch: in turn, or as one computation.

Three classes have the same interface. `Singles` trains the members one after the other, as `ape train` does.
`Vmapped` uses `torch.func`. `Folded` is written by hand: it folds the axis of members into the batch and multiplies the
weights as one batch of matrices. Models have no dropout, because a batched step cannot draw the masks of the single
steps.

Shapes: S members, B rows, N source tokens, M target tokens, D channels, E output channels, V ids. The structure is
`seq`, so all members can read the positions of the longest batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional

from ape_cli.attention import Attention, AttentionContext
from ape_cli.core.vocabulary import PAD
from ape_cli.data.batches import SequenceBatch
from ape_cli.models.transformer import Transformer, loss
from ape_cli.position import Context, Scheme


class Way(Protocol):
    """A way to take a training step with each member."""

    def __call__(self, batches: Sequence[SequenceBatch]) -> Tensor:
        """Take one optimiser step. -> the losses of the members before it, nats per token, [S]"""

    def weights(self) -> dict[str, Tensor]:
        """The parameters of all members by name, [S, ...] each."""


class Joined(NamedTuple):
    """The batches of all members, padded to the largest."""

    source_ids: Tensor  # [S, B, N]
    source_positions: Tensor  # [1, N]
    source_mask: Tensor  # [S, B, N]
    input_ids: Tensor  # [S, B, M]
    input_positions: Tensor  # [1, M]
    labels: Tensor  # [S, B, M]

    @classmethod
    def of(cls, batches: Sequence[SequenceBatch]) -> Joined:
        """Join one batch of each member."""
        mask = _stacked([b.source_mask for b in batches])
        mask[:, :, 0] = True  # also in padding rows, because attention needs a key
        return cls(
            source_ids=_stacked([b.source_ids for b in batches]),
            source_positions=max((b.source_positions for b in batches), key=lambda at: at.shape[1]),
            source_mask=mask,
            input_ids=_stacked([b.input_ids for b in batches]),
            input_positions=max((b.input_positions for b in batches), key=lambda at: at.shape[1]),
            labels=_stacked([b.labels for b in batches]),
        )


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Stack tensors of any sizes. [B, N] each -> [S, largest B, largest N], filled with PAD or False"""
    rows, columns = (max(x.shape[i] for x in parts) for i in (0, 1))
    return torch.stack([functional.pad(x, (0, columns - x.shape[1], 0, rows - x.shape[0])) for x in parts])


def _optimiser(parameters: Sequence[Tensor]) -> torch.optim.Optimizer:
    """The optimiser of all ways."""
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)


def _step(optimiser: torch.optim.Optimizer, losses: Tensor) -> Tensor:
    """Take an optimiser step. The sum of the losses gives each member its own gradient.

    losses: [S] -> the same, without gradient
    """
    optimiser.zero_grad(set_to_none=True)
    losses.sum().backward()
    optimiser.step()
    return losses.detach()


class Singles:
    """Steps of one member after the other."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        """Copy the members and create an optimiser for each."""
        self.members = copy.deepcopy(list(members))
        self.optimisers = [_optimiser(list(m.parameters())) for m in self.members]

    def __call__(self, batches: Sequence[SequenceBatch]) -> Tensor:
        """Take one optimiser step. -> [S]"""
        losses = []
        for model, optimiser, b in zip(self.members, self.optimisers, batches, strict=True):
            scores = model(*b.inputs)
            losses.append(_step(optimiser, loss(scores, b.labels) / b.label_mask.sum()))
        return torch.stack(losses)

    def weights(self) -> dict[str, Tensor]:
        """The parameters of all members by name, [S, ...] each."""
        return stack_module_state(list(self.members))[0]


class Vmapped:
    """Steps of all members by `torch.vmap`."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        """Stack the parameters of the members."""
        self.parameters, self.buffers = stack_module_state(list(members))
        self.model = copy.deepcopy(members[0]).to("meta")
        self.optimiser = _optimiser(list(self.parameters.values()))

    def __call__(self, batches: Sequence[SequenceBatch]) -> Tensor:
        """Take one optimiser step. -> [S]"""
        joined = Joined.of(batches)

        def member_loss(state: Any, source_ids: Tensor, mask: Tensor, input_ids: Tensor, labels: Tensor) -> Tensor:
            read = (source_ids, joined.source_positions, mask, input_ids, joined.input_positions)
            return loss(functional_call(self.model, state, read), labels) / (labels != PAD).sum()

        state = (self.parameters, self.buffers)
        losses = torch.vmap(member_loss)(state, joined.source_ids, joined.source_mask, joined.input_ids, joined.labels)
        return _step(self.optimiser, losses)

    def weights(self) -> dict[str, Tensor]:
        """The parameters of all members by name, [S, ...] each."""
        return self.parameters


class Folded:
    """Steps of all members, batched by hand. Only for schemes without parameters."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        """Stack the members into one model."""
        assert not list(members[0].scheme.parameters())
        self.model = _Together(members)
        self.optimiser = _optimiser(list(self.model.parameters()))

    def __call__(self, batches: Sequence[SequenceBatch]) -> Tensor:
        """Take one optimiser step. -> [S]"""
        joined = Joined.of(batches)
        scores, labels = self.model(joined), joined.labels
        nats = functional.cross_entropy(
            scores.flatten(0, 1).float(), labels.flatten(), ignore_index=PAD, reduction="none"
        )
        return _step(self.optimiser, nats.view(len(labels), -1).sum(1) / (labels != PAD).sum((1, 2)))

    def weights(self) -> dict[str, Tensor]:
        """The parameters of all members by name, [S, ...] each."""
        return dict(self.model.named_parameters())


class _Together(nn.Module):
    """`Transformer` for S members. Its parameters have the same names, and a leading axis S."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        super().__init__()
        self.scheme = members[0].scheme
        self.embedding = _stack([m.embedding for m in members])  # [S, V, D]
        self.encoder, self.decoder = _together([m.encoder for m in members]), _together([m.decoder for m in members])
        self.encoder_norm = _together([m.encoder_norm for m in members])
        self.decoder_norm = _together([m.decoder_norm for m in members])

    def forward(self, joined: Joined) -> Tensor:
        """The scores of all members. -> [S, B * M, V]"""
        source = self.scheme.context(joined.source_positions, joined.source_mask.flatten(0, 1))
        x, link = self._embed(joined.source_ids, source), AttentionContext.of(self.scheme, source, source)
        for layer in self.encoder:
            x = layer(x, self.scheme, link)
        memory = self.encoder_norm(x)
        target = self.scheme.context(joined.input_positions, causal=True, shared_with=source)
        x, link = self._embed(joined.input_ids, target), AttentionContext.of(self.scheme, target, target)
        cross = AttentionContext.of(self.scheme, target, source)
        for layer in self.decoder:
            x = layer(x, self.scheme, link, memory, cross)
        return _by_member(self.decoder_norm(x), len(self.embedding)) @ self.embedding.mT

    def _embed(self, ids: Tensor, context: Context) -> Tensor:
        """Embed the ids. int64 [S, B, N] -> [S * B, N, D]"""
        members, count, d = self.embedding.shape
        own = ids + torch.arange(0, members * count, count, device=ids.device)[:, None, None]
        x = functional.embedding(own.flatten(0, 1), self.embedding.flatten(0, 1)) * math.sqrt(d)
        return self.scheme.embed(x, context)


class _Linears(nn.Module):
    """The linear layers of S members."""

    def __init__(self, members: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight, self.bias = _stack([m.weight for m in members]), _stack([m.bias for m in members])

    def forward(self, x: Tensor) -> Tensor:
        """[S * B, N, D] -> [S * B, N, E]"""
        rows = _by_member(x, len(self.weight))
        return torch.baddbmm(self.bias[:, None], rows, self.weight.mT).view(*x.shape[:-1], -1)


class _Norms(nn.Module):
    """The layer norms of S members."""

    def __init__(self, members: Sequence[nn.LayerNorm]) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = _stack([m.weight for m in members]), _stack([m.bias for m in members]), 1e-5
        assert all(m.eps == self.eps for m in members)

    def forward(self, x: Tensor) -> Tensor:
        """[S * B, N, D] -> the same"""
        rows = _by_member(functional.layer_norm(x, x.shape[-1:], eps=self.eps), len(self.weight))
        return torch.addcmul(self.bias[:, None], rows, self.weight[:, None]).view_as(x)


class _Attentions(nn.Module):
    """The attention layers of S members."""

    def __init__(self, members: Sequence[Attention]) -> None:
        super().__init__()
        self.heads, self.attention_type = members[0].heads, members[0].attention_type
        self.query, self.key = _together([m.query for m in members]), _together([m.key for m in members])
        self.value, self.out = _together([m.value for m in members]), _together([m.out for m in members])

    def forward(self, x: Tensor, memory: Tensor, scheme: Scheme, link: AttentionContext) -> Tensor:
        """[S * B, M, D], [S * B, N, D] -> [S * B, M, D]"""
        q, k, v = (
            layer(read).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, read in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        return self.out(self.attention_type.attend(scheme, q, k, v, link, 0.0).transpose(1, 2).flatten(-2))


_OF: dict[type[nn.Module], Any] = {nn.Linear: _Linears, nn.LayerNorm: _Norms, Attention: _Attentions}


def _together(members: Sequence[nn.Module]) -> Any:
    """One module that applies each member to its part [B, ...] of an input [S * B, ...]."""
    batched = _OF.get(type(members[0]))
    if batched is not None:
        return batched(members)
    together = copy.deepcopy(members[0])
    for name, _ in members[0].named_children():
        setattr(together, name, _together([getattr(m, name) for m in members]))
    return together


def _stack(parts: Sequence[Tensor]) -> nn.Parameter:
    """Stack parameters. [...] each -> [S, ...]"""
    return nn.Parameter(torch.stack([x.detach() for x in parts]))


def _by_member(x: Tensor, members: int) -> Tensor:
    """[S * B, N, D] -> [S, B * N, D]"""
    return x.reshape(members, -1, x.shape[-1])
