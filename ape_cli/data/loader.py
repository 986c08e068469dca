"""Datasets as a model reads them: shards -> padded batches (`batch.py`), bucketed by length.

Memory does not grow with the dataset: rows are read, shuffled and bucketed in windows of a row group; of images, of
four gigabytes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ape_cli.core.errors import UsageError, pick
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import image_batches, verification
from ape_cli.data.collation import WHOLE, Batch, Reading, Share, Side, Window, collate
from ape_cli.data.image_batches import ImageBatch, ImageRows, Steps
from ape_cli.data.manifest import DatasetPlan, Manifest, read_manifest
from ape_cli.data.padding import Padding, exact_length
from ape_cli.storage import image_rows, sequence_rows
from ape_cli.storage.image_rows import Size
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure import Structure, parse_structure


class Facts(Protocol):
    """What of a dataset decides a run, beside the run's configuration."""

    @property
    def task(self) -> str: ...
    @property
    def order(self) -> str | None: ...  # the name of its linearisation: `breadth`, `breadth-to-depth`, …
    @property
    def structure(self) -> Structure: ...  # of the positions
    @property
    def mean_size(self) -> float: ...
    @property
    def mean_tokens(self) -> float: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def image(self) -> Size | None: ...  # height, width and channels of images
    @property
    def parameters(self) -> dict[str, Any]: ...  # of the task


def kind(data: Facts) -> str:
    """Of its model's configuration: `sequence` or `image`."""
    return "sequence" if data.image is None else "image"


class FactsOfPlan:
    """Those of the `Facts` that follow from a dataset's plan."""

    plan: DatasetPlan

    @property
    def task(self) -> str:
        return self.plan.task

    @property
    def order(self) -> str | None:
        return self.plan.linearisation

    @property
    def structure(self) -> Structure:
        return self.plan.structure

    @property
    def image(self) -> Size | None:
        return self.plan.image

    @property
    def parameters(self) -> dict[str, Any]:
        return self.plan.parameters


class Dataset(FactsOfPlan):
    """A dataset whose shards were found whole, with its `Facts`. Make one with `open`."""

    def __init__(self, folder: StoragePath, manifest: Manifest) -> None:
        self.folder, self.manifest, self.plan = folder, manifest, manifest.plan

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def mean_size(self) -> float:
        return self.manifest.mean_size

    @property
    def mean_tokens(self) -> float:
        return self.manifest.mean_tokens

    @property
    def fingerprint(self) -> str:
        return self.manifest.fingerprint

    @property
    def width(self) -> int:
        """Coordinates of a stored position."""
        return self.plan.width

    @property
    def ids(self) -> int:
        """Size of the vocabulary, PAD, SOS and EOS included; of images, the number of classes."""
        return len(self.manifest.vocabulary)

    def split(self, name: str) -> Split | ImageSplit:
        found = Split if self.image is None else ImageSplit
        return found(self, pick("split", name, SPLITS))


_ALBUM = 2**32  # bytes of pixels that may be kept
_Window = TypeVar("_Window", Window, ImageRows)
_Batch = TypeVar("_Batch", Batch, ImageBatch)


class _Rows(ABC, Generic[_Window, _Batch]):
    """The rows of one split, window by window."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.dataset, self.name = dataset, name
        opened = verification.read_shards(dataset.folder, dataset.manifest, name)
        self._groups = [(f, i) for f in opened for i in range(f.num_row_groups)]
        self._group_rows = [f.metadata.row_group(i).num_rows for f, i in self._groups]
        self.rows: int = sum(self._group_rows)
        self._kept: dict[tuple[int, ...], _Window] = {}

    def table(self) -> pa.Table:
        """All rows, in order."""
        return pa.concat_tables(
            [self.dataset.manifest.plan.shard.empty_table(), *(f.read_row_group(i) for f, i in self._groups)]
        )

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
        share: Share = WHOLE,
        **options: Any,
    ) -> Iterator[_Batch]:
        """The batches of an epoch, from number `skip` on; every row in exactly one of them.

        With a `seed` the order is random, a function of (seed, epoch); without, it is that of the kind of rows.
        `share`: of each batch, the rows that are given. `options`: those that `Split` or `ImageSplit` has.
        """
        made = self._collate(seed, epoch, share, **options)
        for window, rows in self._epoch(batch_size, seed, epoch, skip):
            yield made(window, rows)

    @abstractmethod
    def _collate(self, *given: Any, **options: Any) -> Callable[[_Window, I64], _Batch]:
        """What makes a batch of some rows of a window. Given: the seed, the epoch, the share; options of `batches`."""

    def _epoch(self, batch_size: int, seed: int | None, epoch: int, skip: int) -> Iterator[tuple[_Window, I64]]:
        """The batches of an epoch, from number `skip` on: each a window, and the numbers of rows in it."""
        if batch_size < 1:
            raise UsageError("bad batch_size", got=batch_size, allowed="1 or more", fix="choose one of those")
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
            for rows in window.batches(batch_size, order)[skip:]:
                yield window, rows
            skip = 0
            del window  # before the next one is read

    def _windows(self, rng: np.random.Generator | None) -> list[list[int]]:
        """Row groups put together until they are a window's worth of rows."""
        order = range(len(self._groups)) if rng is None else rng.permutation(len(self._groups))
        windows: list[list[int]] = []
        room = 0
        for group in (int(g) for g in order if self._group_rows[g]):
            if room < self._group_rows[group]:
                windows.append([])
                room = self._room
            windows[-1].append(group)
            room -= self._group_rows[group]
        return windows

    @property
    def _room(self) -> int:
        """Rows of a window."""
        return ROW_GROUP

    @abstractmethod
    def _window(self, part: pa.Table) -> _Window:
        """Some row groups, read; a `DataError` for what the dataset cannot hold."""

    def _read(self, groups: list[int]) -> _Window:
        key = tuple(sorted(groups))
        if key in self._kept:
            return self._kept[key]
        parts = [self._groups[g][0].read_row_group(self._groups[g][1]) for g in key]
        window = self._window(pa.concat_tables(parts).combine_chunks())
        if len(key) == len(self._groups):  # the whole split is one window: read it once
            self._kept[key] = window
        return window


class Split(_Rows[Window, Batch]):
    """The sequences of one split; without a seed the batches are in the order of their lengths.

    Options of `batches`:
    - `structure`: what positions are read as, a structure or its expression, by default the dataset's own. It may be
      any that `structure.columns` finds in the data.
    - `padding`: the length that rows are padded to.
    """

    def _collate(
        self,
        seed: int | None,
        epoch: int,
        share: Share,
        *,
        structure: str | Structure | None = None,
        padding: Padding = exact_length,
    ) -> Callable[[Window, I64], Batch]:
        reading = Reading.of(self.dataset.structure, None if structure is None else parse_structure(structure))
        return partial(collate, reading=reading, share=share, padding=padding)

    def _window(self, part: pa.Table) -> Window:
        verification.check_rows(part, self.dataset.structure, self.dataset.ids)
        return flatten(part)


class ImageSplit(_Rows[ImageRows, ImageBatch]):
    """The images of one split; without a seed the batches are in the order of the rows.

    Option of `batches`: `augment`, the steps of augmentation. Their result is a function of (seed, epoch, row).
    """

    def _collate(
        self, seed: int | None, epoch: int, share: Share, *, augment: Steps = ()
    ) -> Callable[[ImageRows, I64], ImageBatch]:
        if augment and seed is None:
            raise UsageError("augmentation is random", got="no seed", allowed="a seed", fix="give one, or no steps")
        return partial(image_batches.collate, share=share, steps=augment, epoch_seed=(seed or 0, epoch))

    @property
    def _room(self) -> int:
        """What is in memory as a whole is decoded once."""
        return max(ROW_GROUP, _ALBUM // math.prod(self.dataset.image or (1,)))

    def _window(self, part: pa.Table) -> ImageRows:
        size = self.dataset.image
        assert size is not None
        return ImageRows(
            row=_whole_numbers(part, "row"),
            size=_whole_numbers(part, "size"),
            pixels=image_rows.pixels(part, size),
            labels=image_rows.labels(part, self.dataset.ids),
        )


def open_dataset(folder: str | StoragePath) -> Dataset:
    """The dataset in a folder or at an address, if its manifest and every shard are whole.

    Raises `DataError`: no such folder, no dataset, unfinished, or a shard that is missing, altered,
    cut short or of another schema.
    """
    path = storage_path(folder)
    manifest = read_manifest(path)
    verification.check_shards(path, manifest)
    for split in SPLITS:
        verification.read_shards(path, manifest, split)
    return Dataset(path, manifest)


def flatten(part: pa.Table) -> Window:
    """The buffers of a table of single chunks, as they are; ids and positions become int64 batch by batch."""

    def side(name: str) -> Side:
        ids, column = (part[f"{name}_{what}"].chunk(0) for what in ("ids", "positions"))
        starts = ids.offsets.to_numpy().astype(np.int64)
        return Side(starts=starts, ids=ids.values.to_numpy(), positions=sequence_rows.positions(column))

    op = part["op"].chunk(0)
    return Window(
        row=_whole_numbers(part, "row"),
        size=_whole_numbers(part, "size"),
        op=op.indices.fill_null(-1).to_numpy().astype(np.int64),
        source=side("source"),
        target=side("target"),
    )


def _whole_numbers(part: pa.Table, name: str) -> I64:
    """A column of a table. -> [R]"""
    return part[name].to_numpy().astype(np.int64)
