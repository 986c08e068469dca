"""Padded batches: the tensors that a model reads, and the labels that it has to predict.

Shapes: B rows, N source tokens, M target tokens, Q labels, L tokens of both, C coordinates of a position. Positions of
a structure with a single factor have no axis of coordinates. Positions that are the same in all rows have one row,
[1, N], and broadcast. Ids and positions are int64, masks are bool (True = token).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import PAD
from ape_cli.data.position_plan import Planner, PositionPlan

Share = tuple[int, int]  # (i, n): every n-th row of a batch, from its row i on
WHOLE: Share = (0, 1)
Padding = Callable[[int], int]  # maps the length of a batch's longest row, in tokens, to the length of all rows


class Batch(ABC):
    """Base class of batches. `ignore_index` is the label of places where there is nothing to predict."""

    ignore_index: ClassVar[int]
    labels: Tensor  # int64 [B, Q]
    row: I64  # [B] row number in the split
    size: I64  # [B]
    op: I64  # [B] operator or class by which scores are grouped; -1 if there is none

    @property
    @abstractmethod
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of the model's forward pass."""

    def planned(self, plan: Planner) -> Self:
        """The batch with the plans of its positions, computed on the host before the batch is sent to a GPU."""
        return self

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor of the batch, [B or 1, ...], in a fixed order."""
        for value in vars(self).values():
            if isinstance(value, Tensor):
                yield value

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """The number of labels and of source tokens of the whole batch, also if this is a share of it."""

    @property
    def label_mask(self) -> Tensor:
        """Bool [B, Q], True where a label is to be predicted."""
        return self.labels != self.ignore_index

    def to(self, device: torch.device) -> Self:
        """The batch on another device."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Self:
        """The batch in pinned host memory, from which a GPU copies without waiting for the CPU."""
        return self._with(Tensor.pin_memory)

    def _with(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                vars(changed)[name] = change(value)
        return changed

    @property
    def key(self) -> tuple[Any, ...]:
        """A key for recorded operations: batches of equal keys need the same operations on the same shapes."""
        return tuple(tensor.shape for tensor in self.tensors())


@dataclass(frozen=True)
class SequenceBatch(Batch):
    """A padded batch of sequences, trees or grids. Ids and positions are int64; masks are bool.

    >>> from ape_cli import dataset
    >>> batch = next(dataset.open("datasets/sample/tree-ops-breadth").split("train").batches(batch_size=2))
    >>> batch.source_mask.sum(1), batch.label_mask.sum(1)  # the number of tokens of each row
    (tensor([3, 5]), tensor([1, 3]))
    """

    ignore_index: ClassVar[int] = PAD

    source_ids: Tensor  # [B, N], ids of the source tokens
    source_positions: Tensor  # [B or 1, N], or [B or 1, N, C] for a product
    source_mask: Tensor  # [B, N], True for tokens and False for padding
    input_ids: Tensor  # [B, M], input of the decoder: SOS and the target without its last token; for tags, the source
    input_positions: Tensor  # [B or 1, M], or [B or 1, M, C] for a product
    labels: Tensor  # [B, Q], the target; PAD where there is nothing to predict
    row: I64  # [B], row numbers in the split
    size: I64  # [B], sizes of the sources
    op: I64  # [B], operators; -1 if the task has none
    label_positions: Tensor | None = None  # [B, M] or [B, M, C], for trees: as stored, in the structure of the data
    label_places: Tensor | None = None  # [B, Q], for tags: the place of each label in input_ids; None if Q = M
    whole: tuple[int, int] | None = None  # for a share: numbers of labels and of source tokens in the whole batch
    plans: tuple[PositionPlan, ...] = ()  # plans of the positions that the model reads

    @property
    def counts(self) -> tuple[int, int]:
        """The number of labels and of source tokens of the whole batch."""
        return self.whole or (int(self.label_mask.sum()), int(self.source_mask.sum()))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of the model's forward pass: source, decoder input, places of labels, and plans."""
        source = (self.source_ids, self.source_positions, self.source_mask)
        return *source, self.input_ids, self.input_positions, self.label_places, *self.plans

    @property
    def places(self) -> tuple[Tensor, ...]:
        """The positions that the model reads."""
        return self.source_positions, self.input_positions

    def planned(self, plan: Planner) -> SequenceBatch:
        """The batch with the plans of its positions."""
        plans: list[PositionPlan] = []
        for positions in self.places:
            plans.append(plan(positions, plans[-1] if plans else None))
        return replace(self, plans=tuple(plans))

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor of the batch, [B or 1, ...], and of its plans, in a fixed order."""
        yield from super().tensors()
        for plan in self.plans:
            yield from plan.all_tensors()

    def _with(self, change: Callable[[Tensor], Tensor]) -> SequenceBatch:
        return replace(super()._with(change), plans=tuple(plan.changed(change) for plan in self.plans))

    @property
    def key(self) -> tuple[Any, ...]:
        """A key for recorded operations: the shapes of all tensors and the keys of the plans."""
        return *super().key, *(plan.key for plan in self.plans)


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyBatch(SequenceBatch):
    """A batch of sequences for a decoder-only model: each target directly after its own source, then padding."""

    ids: Tensor  # [B, L], the tokens of the source and of the decoder's input
    positions: Tensor  # [B or 1, L] or [B or 1, L, C]
    input_indices: Tensor  # int64 [B, M], of the tokens of the decoder's input among `ids`

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments of the model's forward pass."""
        return self.ids, self.positions, self.input_indices, self.label_places, *self.plans

    @property
    def places(self) -> tuple[Tensor, ...]:
        """The positions that the model reads."""
        return (self.positions,)

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors that a training step reads, and those of the plans, in a fixed order."""
        yield from (self.ids, self.positions, self.input_indices, self.labels)
        if self.label_places is not None:
            yield self.label_places
        for plan in self.plans:
            yield from plan.all_tensors()


def own_rows(rows: I64, share: Share) -> tuple[I64, bool]:
    """The rows of a batch that belong to a share, and whether their labels count. int64 [B] -> int64 [at most B]

    A share without rows of its own gets the first row of the batch, and its labels do not count, because a model is
    never given an empty batch.
    """
    part, parts = share
    counts = part < rows.size
    return rows[part::parts] if counts else rows[:1], counts


def exact_length(length: int) -> int:
    """The length of the longest row itself."""
    return length


def few_lengths(length: int) -> int:
    """Round up to one of a few lengths: a multiple of 8 up to 128 tokens, of 16 up to 256, of 32 up to 512, and so on.

    From 64 tokens on, this adds at most an eighth. Padding does not change results, because it is masked. On a GPU,
    where the operations of a step are recorded once for each shape, few shapes matter more than little padding.
    """
    step = max(8, 1 << max(0, (length - 1).bit_length() - 4))
    return max(step, -(-length // step) * step)
