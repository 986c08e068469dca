"""The rows of one split of a dataset, which are read window by window. `loader.py` has the kinds of rows.

A split is cut into blocks of `ROW_GROUP` consecutive rows. A window has one block, or several blocks of images, so
memory does not grow with the size of the dataset. Blocks, and so batches, do not depend on how the rows are divided
into files and row groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import UsageError
from ape_cli.core.rng import I64
from ape_cli.data.batches import WHOLE, SequenceBatch, Share
from ape_cli.data.collation import Window
from ape_cli.data.image_batches import ImageBatch, ImageRows
from ape_cli.data.manifest import Manifest, open_shard
from ape_cli.storage import files
from ape_cli.storage.parquet import ROW_GROUP, read_group
from ape_cli.storage.paths import StoragePath

_MOST_OPEN = 16  # shards; the others are opened again when they are read
_Window = TypeVar("_Window", Window, ImageRows)
_Batch = TypeVar("_Batch", SequenceBatch, ImageBatch)


class Rows(ABC, Generic[_Window, _Batch]):
    """Base class of the rows of one split, which are read window by window."""

    def __init__(self, folder: StoragePath, manifest: Manifest, name: str) -> None:
        """Open the shards of the split, and check their digests. Raises `DataError` if one is missing or damaged."""
        self.folder, self.manifest, self.name = folder, manifest, name
        self.rows = manifest.plan.rows[name]
        self._verified: set[int] = set()  # shards whose digests were checked
        self._kept: _Window | None = None  # the window that is the whole split, once it is read
        self._open = lru_cache(_MOST_OPEN)(self._opened)
        sizes = list(files.each(self._group_sizes, range(len(manifest.shards[name])), folder))
        self._groups = [(shard, i) for shard, groups in enumerate(sizes) for i in range(len(groups))]
        self._ends = list(accumulate(rows for groups in sizes for rows in groups))  # of the row groups, in the split
        self._blocks = [range(i, min(i + ROW_GROUP, self.rows)) for i in range(0, self.rows, ROW_GROUP)]

    @property
    def ids(self) -> int:
        """The size of the vocabulary, or the number of classes of images."""
        return len(self.manifest.vocabulary)

    def table(self) -> pa.Table:
        """All rows of the split as an Arrow table, in order. Raises `DataError` if they cannot be read."""
        return pa.concat_tables([self.manifest.plan.shard.empty_table(), *self.tables()])

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """The rows in order, a table for each window, with the named or all columns. Raises `DataError`."""
        return (self._table(blocks, columns) for blocks in self._windows(None))

    def steps(self, batch_size: int, seed: int | None = None, epoch: int = 0, epochs: int = 1) -> int:
        """The number of batches in `epochs` epochs, from `epoch` on.

        For images in several windows it depends on `seed` and `epoch`, because the last batch of each may be short.
        """
        if self.rows <= self._room:  # one window, in any order of its blocks
            return epochs * -(-self.rows // batch_size)
        orders = (self._windows(_epoch_rng(seed, number)) for number in range(epoch, epoch + epochs))
        return sum(-(-_rows_in(blocks) // batch_size) for order in orders for blocks in order)

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
        """Yield the batches of an epoch, starting at batch number `skip`. Every row is in exactly one batch.

        - `seed`: with a seed, the order is random and a function of (seed, epoch). Without one, sequences are ordered
          by length, and images by row.
        - `share`: (i, n) selects every n-th row of each batch from its row i on, for training in several processes.
        - `options`: those of `Split` or `ImageSplit`.

        Raises `UsageError` if an argument is out of range.
        """
        collate = self._collate(seed, epoch, share, **options)
        for window, rows in self._epoch(batch_size, seed, epoch, skip):
            yield collate(window, rows)

    def first_batches(
        self, batch_size: int, seed: int | None, *, epoch: int = 0, skip: int = 0
    ) -> Iterator[tuple[_Window, I64]]:
        """Yield for each of the next batches its window and the indices of its rows, up to the end of that window.

        The arguments are those of `batches`.
        """
        first: _Window | None = None
        for window, rows in self._epoch(batch_size, seed, epoch, skip):
            first = first or window
            if window is not first:
                return
            yield window, rows

    @abstractmethod
    def _collate(self, *arguments: Any, **options: Any) -> Callable[[_Window, I64], _Batch]:
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
        for blocks, window_seed in zip(windows, seeds, strict=True):
            count = -(-_rows_in(blocks) // batch_size)
            if skip >= count:
                skip -= count
                continue
            window = self._read(blocks)
            order = None if window_seed is None else np.random.default_rng(window_seed)
            for rows in window.batches(batch_size, order)[skip:]:
                yield window, rows
            skip = 0
            del window  # before the next one is read

    def _windows(self, rng: np.random.Generator | None) -> list[list[range]]:
        """The blocks of each window, as ranges of rows of the split. They are in random order if `rng` is given."""
        order = range(len(self._blocks)) if rng is None else rng.permutation(len(self._blocks))
        windows: list[list[range]] = []
        room = 0
        for block in (self._blocks[i] for i in order):
            if room < len(block):
                windows.append([])
                room = self._room
            windows[-1].append(block)
            room -= len(block)
        return windows

    @property
    def _room(self) -> int:
        """The most rows that a window has."""
        return ROW_GROUP

    @abstractmethod
    def _window(self, part: pa.Table) -> _Window:
        """The window of a table whose columns have one chunk each."""

    def _opened(self, shard: int) -> pq.ParquetFile:
        """Open a shard of the split. Its digest is checked the first time."""
        stored = self.manifest.shards[self.name][shard]
        file = open_shard(self.folder, self.manifest.plan, stored, verify=shard not in self._verified)
        self._verified.add(shard)
        return file

    def _group_sizes(self, shard: int) -> list[int]:
        """The number of rows of each row group of a shard."""
        footer = self._open(shard).metadata
        return [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]

    def _table(self, blocks: Iterable[range], columns: Sequence[str] = ()) -> pa.Table:
        """The rows of some blocks, with the named or all columns. Raises `DataError` if they cannot be read."""
        return pa.concat_tables(part for block in blocks for part in self._parts(block, columns))

    def _parts(self, block: range, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a block, a table for each row group that has some of them."""
        for number in range(bisect_right(self._ends, block.start), bisect_left(self._ends, block.stop) + 1):
            shard, group = self._groups[number]
            table = read_group(self._open(shard), group, self.manifest.shards[self.name][shard].file, columns)
            first = self._ends[number] - len(table)
            skipped = max(0, block.start - first)
            yield table.slice(skipped, block.stop - first - skipped)

    def _read(self, blocks: list[range]) -> _Window:
        """The window of some blocks, in the order of the split. It is kept if it is the whole split."""
        if self._kept is not None:
            return self._kept
        window = self._window(self._table(sorted(blocks, key=lambda block: block.start)).combine_chunks())
        if len(blocks) == len(self._blocks):  # the whole split is one window: read it once
            self._kept = window
        return window


def _rows_in(blocks: Iterable[range]) -> int:
    """The number of rows of some blocks."""
    return sum(map(len, blocks))


def _epoch_rng(seed: int | None, epoch: int) -> np.random.Generator | None:
    """The random stream that decides the order of an epoch, or None without a seed."""
    return None if seed is None else np.random.default_rng([seed, epoch])
