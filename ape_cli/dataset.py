"""Datasets as a model reads them: shards -> padded batches, bucketed by length.

Shapes: B rows, N source tokens, M target tokens. Ids and positions are int64, masks bool (True = token).

Teacher forcing: the decoder reads SOS and the target but its last token, and is asked for the target.
Sequences carry EOS in source and target; trees have none, their end is in their structure.
Positions: SOS is 0; tokens of a sequence are 1, 2, ..., of a tree their heap index. A scheme for
sequences reads a tree along its linearisation, as 1, 2, ... (paper, section 4.1: the flat baselines).
Positions along a sequence are the same in every row, so they have one row, [1, N], and broadcast.

Memory does not grow with the dataset: rows are read, shuffled and bucketed in windows of a row group.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ape_cli import ragged, schema
from ape_cli.errors import DataError, UsageError, pick
from ape_cli.schema import EOS, PAD, SOS, Manifest
from ape_cli.streams import I64


@dataclass(frozen=True)
class Batch:
    """One padded batch; see the module's docstring for shapes."""

    source_ids: Tensor  # [B, N]
    source_positions: Tensor  # [B or 1, N]
    source_mask: Tensor  # [B, N]
    input_ids: Tensor  # [B, M], SOS first
    input_positions: Tensor  # [B or 1, M]
    labels: Tensor  # [B, M], PAD where there is nothing to predict
    row: I64  # [B] row in its split
    size: I64  # [B]
    op: I64  # [B], -1 where the task has none

    @property
    def label_mask(self) -> Tensor:
        """[B, M] True where a token is to be predicted."""
        return self.labels != PAD

    def to(self, device: torch.device) -> Batch:
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                vars(moved)[name] = value.to(device, non_blocking=True)
        return moved


@dataclass(frozen=True)
class _Window:
    """Some thousand rows as flat arrays."""

    row: I64
    size: I64
    op: I64
    source: tuple[I64, I64, I64]  # starts, ids, positions
    target: tuple[I64, I64, I64]

    @property
    def source_length(self) -> I64:
        return np.diff(self.source[0])

    @property
    def target_length(self) -> I64:
        return np.diff(self.target[0])


class Dataset:
    """A dataset whose shards were found whole. Make one with `open`."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def structure(self) -> str:
        return self.manifest.plan.structure

    @property
    def ids(self) -> int:
        """Size of the vocabulary, PAD, SOS and EOS included."""
        return len(self.manifest.vocabulary)

    def split(self, name: str) -> Split:
        return Split(self, pick("split", name, schema.SPLITS))


class Split:
    """The rows of one split."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.dataset, self.name = dataset, name
        files = [schema.read_shard(dataset.folder / s.file) for s in dataset.manifest.shards[name]]
        self._groups = [(f, i) for f in files for i in range(f.num_row_groups)]
        self._group_rows = [f.metadata.row_group(i).num_rows for f, i in self._groups]
        self.rows: int = sum(self._group_rows)
        self._kept: dict[tuple[int, ...], _Window] = {}

    def table(self) -> pa.Table:
        """All rows, in order."""
        return pa.concat_tables([schema.SHARD.empty_table(), *(f.read_row_group(i) for f, i in self._groups)])

    def steps(self, batch_size: int) -> int:
        """Batches in an epoch."""
        return sum(-(-sum(self._group_rows[g] for g in w) // batch_size) for w in self._windows(None))

    def batches(
        self,
        batch_size: int,
        seed: int | None = None,
        *,
        epoch: int = 0,
        skip: int = 0,
        structure: str | None = None,
    ) -> Iterator[Batch]:
        """The batches of an epoch, from number `skip` on; every row in exactly one of them.

        With a `seed` the order is random, a function of (seed, epoch); without, it is by length.
        `structure`: what positions are read as, the dataset's own (default) or `seq`.
        """
        if batch_size < 1:
            raise UsageError("bad batch_size", got=batch_size, allowed="1 or more", fix="choose one of those")
        own = self.dataset.structure
        structure = pick("structure of positions", structure or own, {own, "seq"})
        rng = None if seed is None else np.random.default_rng([seed, epoch])
        windows = self._windows(rng)
        seeds = [None] * len(windows) if rng is None else rng.integers(2**62, size=len(windows)).tolist()
        for groups, window_seed in zip(windows, seeds, strict=True):
            count = -(-sum(self._group_rows[g] for g in groups) // batch_size)
            if skip >= count:
                skip -= count
                continue
            window = self._read(groups)
            order = None if window_seed is None else np.random.default_rng(window_seed)
            for rows in _bucket(window, batch_size, order)[skip:]:
                yield _collate(window, rows, own, structure)
            skip = 0

    def _windows(self, rng: np.random.Generator | None) -> list[list[int]]:
        """Row groups put together until they are a row group's worth of rows."""
        order = range(len(self._groups)) if rng is None else rng.permutation(len(self._groups))
        windows: list[list[int]] = []
        room = 0
        for group in (int(g) for g in order if self._group_rows[g]):
            if room < self._group_rows[group]:
                windows.append([])
                room = schema.ROW_GROUP
            windows[-1].append(group)
            room -= self._group_rows[group]
        return windows

    def _read(self, groups: list[int]) -> _Window:
        key = tuple(sorted(groups))
        if key in self._kept:
            return self._kept[key]
        parts = [self._groups[g][0].read_row_group(self._groups[g][1]) for g in key]
        window = _flatten(pa.concat_tables(parts).combine_chunks())
        if len(key) == len(self._groups):  # the whole split is one window: read it once
            self._kept[key] = window
        return window


def open(folder: str | Path) -> Dataset:
    """The dataset in a folder, if its manifest and every shard are whole.

    Raises `DataError`: no such folder, no dataset, unfinished, or a shard that is missing, altered,
    cut short or of another schema.
    """
    path = Path(folder)
    manifest = schema.read_manifest(path)
    schema.check_shards(path, manifest)
    for shards in manifest.shards.values():
        for shard in shards:
            schema.read_shard(path / shard.file)
    return Dataset(path, manifest)


def _flatten(part: pa.Table) -> _Window:
    def lists(name: str) -> tuple[I64, I64, I64]:
        ids, positions = (part[f"{name}_{what}"].combine_chunks() for what in ("ids", "positions"))
        at = positions.values.to_numpy()
        if at.size and int(at.max()) >= 2**63:
            raise DataError(
                "a position is too deep",
                got=f"heap index {int(at.max())}",
                allowed="depth 62",
                fix="prune the trees",
            )
        return (
            ids.offsets.to_numpy().astype(np.int64),
            ids.values.to_numpy().astype(np.int64),
            at.astype(np.int64),
        )

    op = part["op"].combine_chunks()
    return _Window(
        row=part["row"].to_numpy().astype(np.int64),
        size=part["size"].to_numpy().astype(np.int64),
        op=op.indices.fill_null(-1).to_numpy().astype(np.int64),
        source=lists("source"),
        target=lists("target"),
    )


def _bucket(window: _Window, batch_size: int, rng: np.random.Generator | None) -> list[I64]:
    """Row numbers of each batch: like lengths together, then (with `rng`) the batches in random order.

    Rows are halved, by source or by target length, whichever is spread wider, until a batch is left.
    """
    source, target = window.source_length, window.target_length
    batches: list[I64] = []
    waiting = [np.arange(window.row.size) if rng is None else rng.permutation(window.row.size)]
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


def _pad(flat: I64, starts: I64, rows: I64) -> tuple[I64, np.ndarray]:
    """[B, L] padded with PAD (= 0), and the mask of what is real."""
    place, cut = ragged.take(starts, rows)
    lengths = np.diff(cut)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    padded = np.full(mask.shape, PAD, dtype=np.int64)
    padded[mask] = flat[place]
    return padded, mask


def _collate(window: _Window, rows: I64, own: str, structure: str) -> Batch:
    source, source_mask = _pad(window.source[1], window.source[0], rows)
    target, target_mask = _pad(window.target[1], window.target[0], rows)
    if own == "seq":
        source, target = _close(source, source_mask), _close(target, target_mask)
        source_mask = source != PAD
    batch, n, m = len(rows), source.shape[1], target.shape[1]
    if structure == "seq":
        source_positions, input_positions = np.arange(1, n + 1)[None], np.arange(m)[None]
    else:
        source_positions, _ = _pad(window.source[2], window.source[0], rows)
        heap, _ = _pad(window.target[2], window.target[0], rows)
        input_positions = np.concatenate([np.zeros((batch, 1), dtype=np.int64), heap[:, :-1]], axis=1)
    inputs = np.concatenate([np.full((batch, 1), SOS), target[:, :-1]], axis=1)
    tensor = torch.from_numpy
    return Batch(
        source_ids=tensor(source),
        source_positions=tensor(source_positions),
        source_mask=tensor(source_mask),
        input_ids=tensor(inputs),
        input_positions=tensor(input_positions),
        labels=tensor(target),
        row=window.row[rows],
        size=window.size[rows],
        op=window.op[rows],
    )


def _close(ids: I64, mask: np.ndarray) -> I64:
    """EOS after the last symbol of each row. [B, L] -> [B, L+1]"""
    closed = np.pad(ids, ((0, 0), (0, 1)), constant_values=PAD)
    closed[np.arange(len(ids)), mask.sum(axis=1)] = EOS
    return closed
