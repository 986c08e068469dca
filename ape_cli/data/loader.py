"""Data loading: read the shards of a dataset and yield padded batches of rows of similar length.

Memory does not grow with the size of the dataset. Rows are read, shuffled and put into batches in windows: of the size
of a row group for sequences, of four gigabytes for images.

Shapes: B rows of a batch.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError, UsageError, pick
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import image_batches, verification
from ape_cli.data.batches import WHOLE, Batch, Share
from ape_cli.data.collation import Reading, Window, collate, whole_numbers
from ape_cli.data.facts import Facts
from ape_cli.data.image_batches import ImageBatch, ImageRows, Steps
from ape_cli.data.manifest import Manifest, read_sealed_manifest
from ape_cli.data.padding import Padding, exact_length
from ape_cli.storage import image_rows
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure import Structure, parse_structure

logger = logging.getLogger(__name__)


class Dataset(Facts):
    """A dataset on disk whose shards are complete. `open_dataset` opens one."""

    def __init__(self, folder: StoragePath, manifest: Manifest) -> None:
        """Take the folder and its manifest as they are, without reading the shards."""
        super().__init__(manifest.plan, manifest.mean_size, manifest.mean_tokens, manifest.fingerprint)
        self.folder, self.manifest = folder, manifest

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @property
    def width(self) -> int:
        """The number of coordinates of a stored position."""
        return self.plan.width

    @property
    def ids(self) -> int:
        """The size of the vocabulary, including PAD, SOS and EOS; for images, the number of classes."""
        return len(self.manifest.vocabulary)

    def split(self, name: str) -> Split | ImageSplit:
        """The rows of a split: `train`, `validation` or `test`. Raises `UsageError` for another name."""
        found = Split if self.image is None else ImageSplit
        return found(self, pick("split", name, SPLITS))


_MOST_OPEN = 16  # shards; the others are opened again when they are read
_IMAGE_WINDOW = 2**32  # bytes of pixels in a window
_Window = TypeVar("_Window", Window, ImageRows)
_Batch = TypeVar("_Batch", Batch, ImageBatch)


class _Rows(ABC, Generic[_Window, _Batch]):
    """Base class of the rows of one split, which are read window by window."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        """Open the shards of the split. Raises `DataError` if one is missing or damaged."""
        self.dataset, self.name = dataset, name
        sizes = verification.group_rows(dataset.folder, dataset.manifest, name)
        self._groups = [(shard, i) for shard, groups in enumerate(sizes) for i in range(len(groups))]
        self._group_rows = [rows for groups in sizes for rows in groups]
        *self._group_starts, self.rows = accumulate(self._group_rows, initial=0)
        self._kept: dict[tuple[int, ...], _Window] = {}
        self._open = lru_cache(_MOST_OPEN)(self._opened)
        self._content = verification.ContentCheck(dataset.manifest, name, [len(groups) for groups in sizes])

    def table(self) -> pa.Table:
        """All rows of the split as a table, in their order. Raises `DataError` if they are not those generated."""
        return pa.concat_tables([self.dataset.manifest.plan.shard.empty_table(), *self.groups()])

    def groups(self) -> Iterator[pa.Table]:
        """The row groups of the split, in their order. Raises `DataError` if the rows are not those generated."""
        return map(self._group, range(len(self._groups)))

    def steps(self, batch_size: int, seed: int | None = None, epoch: int = 0) -> int:
        """The number of batches of an epoch.

        It depends on `seed` and `epoch` if the split has several windows, because the last batch of each may be short.
        """
        windows = self._windows(_epoch_rng(seed, epoch))
        return sum(-(-sum(self._group_rows[g] for g in groups) // batch_size) for groups in windows)

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
        """Yield the batches of an epoch, from batch number `skip` on. Every row is in exactly one batch.

        With a `seed`, the order is random and a function of (seed, epoch). Without one, it is the order that `Split` or
        `ImageSplit` describes. `share` selects rows of each batch, for training in several processes. `options` are
        those of `Split` or `ImageSplit`. Raises `UsageError` if an argument is out of range.
        """
        made = self._collate(seed, epoch, share, **options)
        for window, rows in self._epoch(batch_size, seed, epoch, skip):
            yield made(window, rows)

    @abstractmethod
    def _collate(self, *given: Any, **options: Any) -> Callable[[_Window, I64], _Batch]:
        """The function that collates rows of a window into a batch.

        The positional arguments are the seed, the epoch and the share, the keywords are the options of `batches`.
        """

    def _epoch(self, batch_size: int, seed: int | None, epoch: int, skip: int) -> Iterator[tuple[_Window, I64]]:
        """Yield for each batch of an epoch its window and the indices of its rows, from batch number `skip` on."""
        if batch_size < 1:
            raise UsageError("bad batch_size", got=batch_size, allowed="1 or more", fix="choose another batch size")
        rng = _epoch_rng(seed, epoch)
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
        """The row groups of each window, in random order if `rng` is given."""
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
        """The number of rows after which a window takes no more row groups."""
        return ROW_GROUP

    @abstractmethod
    def _check(self, part: pa.Table) -> None:
        """Check the rows of a row group. Raises `DataError` if values are not allowed in this dataset."""

    @abstractmethod
    def _window(self, part: pa.Table) -> _Window:
        """The window of some row groups, which were checked."""

    def _opened(self, shard: int) -> pq.ParquetFile:
        """Open a shard of the split."""
        dataset = self.dataset
        return verification.open_shard(dataset.folder, dataset.manifest, dataset.manifest.shards[self.name][shard])

    def _group(self, number: int) -> pa.Table:
        """Read a row group of the split, and check its content when it is read for the first time."""
        shard, group = self._groups[number]
        try:
            part = self._open(shard).read_row_group(group)
        except (OSError, pa.ArrowException) as error:
            file = self.dataset.manifest.shards[self.name][shard].file
            raise DataError(f"cannot read {file}", got=str(error).splitlines()[0], fix="generate it again") from error
        self._check(part)
        self._content.add(shard, group, part)
        verification.check_row_numbers(part, self._group_starts[number])
        return part

    def _read(self, groups: list[int]) -> _Window:
        """The window of some row groups. It is kept if it is the whole split."""
        key = tuple(sorted(groups))
        if key in self._kept:
            return self._kept[key]
        window = self._window(pa.concat_tables([self._group(g) for g in key]).combine_chunks())
        if len(key) == len(self._groups):  # the whole split is one window: read it once
            self._kept[key] = window
        return window


def _epoch_rng(seed: int | None, epoch: int) -> np.random.Generator | None:
    """The random stream that decides the order of an epoch, or None without a seed."""
    return None if seed is None else np.random.default_rng([seed, epoch])


class Split(_Rows[Window, Batch]):
    """The sequences of one split. Without a seed, batches are ordered by length.

    Options of `batches`:

    - `structure`: the structure as which positions are read, an object or an expression. The default is the dataset's
      own. All structures that `structure.columns` finds in the data are allowed.
    - `padding`: a function from the length of a batch's longest row to the length of all its rows.
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

    def _check(self, part: pa.Table) -> None:
        verification.check_rows(part, self.dataset.structure, self.dataset.ids)

    def _window(self, part: pa.Table) -> Window:
        return Window.of(part)


class ImageSplit(_Rows[ImageRows, ImageBatch]):
    """The images of one split. Without a seed, batches are in the order of the rows.

    Option of `batches`: `augment`, the steps of augmentation. Their result is a function of (seed, epoch, row).
    """

    def _collate(
        self, seed: int | None, epoch: int, share: Share, *, augment: Steps = ()
    ) -> Callable[[ImageRows, I64], ImageBatch]:
        if augment and seed is None:
            raise UsageError(
                "augmentation needs a seed", got="none", allowed="a seed", fix="give one, or no augmentation steps"
            )
        return partial(image_batches.collate, share=share, steps=augment, epoch_seed=(seed or 0, epoch))

    @property
    def _room(self) -> int:
        """As many images as fit into memory, so that a small dataset is decoded only once."""
        return max(ROW_GROUP, _IMAGE_WINDOW // math.prod(self.dataset.image or (1,)))

    def _check(self, part: pa.Table) -> None:
        image_rows.labels(part, self.dataset.ids)

    def _window(self, part: pa.Table) -> ImageRows:
        size = self.dataset.image
        assert size is not None
        return ImageRows(
            row=whole_numbers(part, "row"),
            size=whole_numbers(part, "size"),
            pixels=image_rows.pixels(part, size),
            labels=image_rows.labels(part, self.dataset.ids),
        )


def open_dataset(folder: str | StoragePath) -> Dataset:
    """Open the dataset in a local folder or at the address of an object store.

    Raises `DataError` if there is no such folder, if it has no complete dataset, or if a shard is missing, altered,
    truncated or has another schema. Rows are compared with the manifest when they are read for the first time.
    """
    path = storage_path(folder)
    manifest, sealed = read_sealed_manifest(path)
    verification.check_shards(path, manifest)
    for split in SPLITS:
        verification.group_rows(path, manifest, split)
    if not sealed:
        logger.info(f"{path}: the manifest has no digest, so it is unverified; the same `ape gen` command adds it")
    return Dataset(path, manifest)
