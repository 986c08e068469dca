"""Rows as a model reads them: one padded batch, its positions read as a structure.

Shapes: B rows, N source tokens, M target tokens, C coordinates of a position (simple factors of the
structure it is read as; one that has a single factor has no axis for it). Ids and positions are int64,
masks bool (True = token).

Teacher forcing: the decoder reads SOS and the target but its last token, and is asked for the target.
Data of structure `seq` carries EOS in source and target; all others have none, their end is in their structure.
Positions: SOS is 0 in every coordinate, and so is padding. Tokens of a sequence stand at 1, 2, ..., as does
everything along its linearisation: a scheme for sequences reads a tree so (paper, section 4.1: the flat
baselines). Other coordinates are what is stored plus the structure's `first`: a heap index as it is, a row,
a column or a place of a ring counted from 1. Positions that are the same in all rows, because every
coordinate is along the line, have one row, [1, N], whatever is padding, and broadcast.

Processes that train together make the same batches, and each its own share of the rows.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from ape_cli.core import ragged
from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import EOS, PAD, SOS
from ape_cli.data.padding import Padding, exact_length
from ape_cli.data.position_plan import Planner, PositionPlan
from ape_cli.structure import LINE, Seq, Structure, Tree, columns

_T = TypeVar("_T")
Share = tuple[int, int]  # (i, n): every n-th row of a batch, from its row i on
WHOLE: Share = (0, 1)


class Labelled(ABC):
    """What batches of all kinds have: a label for each thing to predict, `blank` where there is nothing."""

    blank: ClassVar[int]
    labels: Tensor  # int64 [B, M]
    row: I64  # [B] row in its split
    size: I64  # [B]
    op: I64  # [B] by what scores are told apart, -1 where by nothing

    @property
    @abstractmethod
    def inputs(self) -> tuple[Any, ...]:
        """What a model is given."""

    def planned(self, scheme: Planner) -> Self:
        """With the scheme's plans of the positions, for a GPU. Made on the host, before the batch is sent."""
        return self

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor of the batch, in a fixed order."""
        for value in vars(self).values():
            if isinstance(value, Tensor):
                yield value

    @property
    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Labels and source tokens of the whole batch."""

    @property
    def label_mask(self) -> Tensor:
        """[B, M] True where there is something to predict."""
        return self.labels != self.blank

    def to(self, device: torch.device) -> Self:
        return self._with(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Self:
        """In memory from which a GPU reads on its own."""
        return self._with(Tensor.pin_memory)

    def _with(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                vars(changed)[name] = change(value)
        return changed

    @property
    def key(self) -> tuple[Any, ...]:
        """Batches of equal keys lead to the same operations on tensors of the same shapes."""
        return tuple(tensor.shape for tensor in self.tensors())


@dataclass(frozen=True)
class Batch(Labelled):
    """One padded batch; see the module's docstring for shapes."""

    blank: ClassVar[int] = PAD

    source_ids: Tensor  # [B, N]
    source_positions: Tensor  # [B or 1, N] or [B or 1, N, C]
    source_mask: Tensor  # [B, N]
    input_ids: Tensor  # [B, M], SOS first
    input_positions: Tensor  # [B or 1, M] or [B or 1, M, C]
    labels: Tensor  # [B, M], PAD where there is nothing to predict
    row: I64  # [B] row in its split
    size: I64  # [B]
    op: I64  # [B], -1 where the task has none
    label_positions: Tensor | None = None  # of trees: as stored, in the data's own structure, [B, M] or [B, M, C]
    whole: tuple[int, int] | None = None  # of a share: labels and source tokens of the batch that it is of
    plans: tuple[PositionPlan, ...] = ()  # of the source's positions and of the input's

    @property
    def counts(self) -> tuple[int, int]:
        return self.whole or (int(self.label_mask.sum()), int(self.source_mask.sum()))

    @property
    def inputs(self) -> tuple[Any, ...]:
        source = (self.source_ids, self.source_positions, self.source_mask)
        return *source, self.input_ids, self.input_positions, *self.plans

    def planned(self, scheme: Planner) -> Batch:
        source = scheme.plan(self.source_positions)
        return replace(self, plans=(source, scheme.plan(self.input_positions, source)))

    def tensors(self) -> Iterator[Tensor]:
        yield from super().tensors()
        for plan in self.plans:
            yield from plan.each()

    def _with(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(super()._with(change), plans=tuple(plan.changed(change) for plan in self.plans))

    @property
    def key(self) -> tuple[Any, ...]:
        return *super().key, *(plan.key for plan in self.plans)


@dataclass(frozen=True)
class Side:
    """Sources or targets of some thousand rows, flat and as they are stored: row r is starts[r]:starts[r + 1]."""

    starts: I64
    ids: np.ndarray  # [T] uint16
    positions: np.ndarray  # [T] uint64, or [T, C]

    @property
    def length(self) -> I64:
        return np.diff(self.starts)

    def length_of(self, rows: I64) -> I64:
        return self.starts[rows + 1] - self.starts[rows]


@dataclass(frozen=True)
class Window:
    """Some thousand rows."""

    row: I64
    size: I64
    op: I64
    source: Side
    target: Side

    def batches(self, batch_size: int, rng: np.random.Generator | None) -> list[I64]:
        """Row numbers of each batch: like lengths together, then (with `rng`) the batches in random order.

        Rows are halved, by source or by target length, whichever is spread wider, until a batch is left.
        """
        source, target = self.source.length, self.target.length
        batches: list[I64] = []
        waiting = [np.arange(self.row.size) if rng is None else rng.permutation(self.row.size)]
        while waiting:
            rows = waiting.pop()
            if rows.size <= batch_size:
                batches.append(rows)
                continue
            length = max(source[rows], target[rows], key=np.ptp)
            rows = rows[np.argsort(length, kind="stable")]
            half = -(-rows.size // batch_size) // 2 * batch_size
            waiting += [rows[half:], rows[:half]]
        return batches if rng is None else [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True)
class Reading:
    """As what structure the positions of some data are read."""

    own: Structure  # of the data
    wanted: Structure
    columns: tuple[int, ...]  # of each coordinate that is wanted: which of the data's it is, or LINE

    @classmethod
    def of(cls, own: Structure, wanted: Structure | None) -> Reading:
        """As the wanted structure, or the data's own; a `UsageError` where the data has none such."""
        wanted = own if wanted is None else wanted
        found = columns(wanted, own)
        if found is None:
            raise UsageError(
                f"this dataset has no positions of structure {wanted.expression}",
                got=f"structure {own.expression}",
                allowed=f"{own.expression}; seq and cyclic(n) along its linearisation; products of these",
                fix="leave it out for the data's own",
            )
        # the places of a sequence are the line itself, and EOS stands on it too
        return cls(own, wanted, tuple(LINE if own == Seq() else column for column in found))

    @property
    def is_line(self) -> bool:
        """Whether every coordinate is along the line, so that nothing stored is read."""
        return set(self.columns) == {LINE}

    def places(self, stored: I64 | None, mask: np.ndarray) -> I64:
        """Positions of tokens. stored: [B, L] or [B, L, C] of the data's own -> [B or 1, L] or [B or 1, L, C]"""
        line = np.arange(1, mask.shape[1] + 1)
        if self.is_line:
            read = [line[None]] * len(self.columns)
        else:
            assert stored is not None
            coordinates = stored.reshape(*mask.shape, self.own.width)
            found = zip(self.columns, self.wanted.first, strict=True)
            read = [np.where(mask, line if c == LINE else coordinates[..., c] + first, 0) for c, first in found]
        return read[0] if len(read) == 1 else np.stack(read, axis=-1)


def ahead(items: Iterable[_T], count: int) -> Generator[_T, None, None]:
    """The same items, up to `count` of them made in a thread before they are asked for; 0: without a thread.

    An error in the making is raised where the item is asked for. Close it, and the thread has ended.
    """
    if not count:
        yield from items
        return
    left = iter(items)

    def following() -> list[_T]:  # empty at the end
        return list(itertools.islice(left, 1))

    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(following) for _ in range(count))
        while made := waiting.popleft().result():
            waiting.append(thread.submit(following))
            yield made[0]


def own_rows(rows: I64, share: Share) -> tuple[I64, bool]:
    """Those of a batch's rows that a share has, and whether their labels are asked for.

    A share that would have no rows has the first one, and none of its labels: a model is never given an empty batch.
    """
    part, parts = share
    asked = part < rows.size
    return rows[part::parts] if asked else rows[:1], asked


def collate(
    window: Window, rows: I64, reading: Reading, share: Share = WHOLE, padding: Padding = exact_length
) -> Batch:
    """The chosen rows of a window, padded; or a share of them, padded as all of them are."""
    own, asked = own_rows(rows, share)
    unfolds = any(isinstance(s, Tree) for s in reading.own.simple)
    closed = reading.own == Seq()
    source_length, target_length = (
        padding(int(side.length_of(rows).max(initial=0)) + closed) - closed for side in (window.source, window.target)
    )
    source, source_at, source_mask = _pad(window.source, source_length, own, not reading.is_line)
    target, target_at, target_mask = _pad(window.target, target_length, own, unfolds or not reading.is_line)
    if closed:
        source, target = _close(source, source_mask), _close(target, target_mask)
        source_mask, target_mask = source != PAD, target != PAD
    tensor = torch.from_numpy
    return Batch(
        source_ids=tensor(source),
        source_positions=tensor(reading.places(source_at, source_mask)),
        source_mask=tensor(source_mask),
        input_ids=tensor(_after(SOS, target)),
        input_positions=tensor(_after(0, reading.places(target_at, target_mask))),
        labels=tensor(target if asked else np.full_like(target, PAD)),
        row=window.row[own],
        size=window.size[own],
        op=window.op[own],
        label_positions=tensor(target_at) if unfolds else None,
        whole=None if share == WHOLE else (_tokens(window.target, rows, closed), _tokens(window.source, rows, closed)),
    )


def _tokens(side: Side, rows: I64, closed: bool) -> int:
    """Of all the rows, EOS included where they are `closed` with one."""
    return int(side.length_of(rows).sum()) + closed * rows.size


def _pad(side: Side, length: int, own: I64, placed: bool) -> tuple[I64, I64 | None, np.ndarray]:
    """Some rows, `length` tokens each.

    Ids [B, L] padded with PAD, stored positions [B, L] or [B, L, C] padded with 0 (if `placed`), the mask [B, L].
    """
    place, _ = ragged.take(side.starts, own)
    mask = np.arange(length) < side.length_of(own)[:, None]

    def padded(flat: np.ndarray, blank: int) -> I64:
        found = np.full((*mask.shape, *flat.shape[1:]), blank, dtype=np.int64)
        found[mask] = flat[place]
        return found

    return padded(side.ids, PAD), padded(side.positions, 0) if placed else None, mask


def _after(first: int, values: I64) -> I64:
    """What the decoder reads: `first`, then all but the last. [B, L, ...] -> the same"""
    return np.concatenate([np.full_like(values[:, :1], first), values[:, :-1]], axis=1)


def _close(ids: I64, mask: np.ndarray) -> I64:
    """EOS after the last symbol of each row. [B, L] -> [B, L+1]"""
    closed = np.pad(ids, ((0, 0), (0, 1)), constant_values=PAD)
    closed[np.arange(len(ids)), mask.sum(axis=1)] = EOS
    return closed
