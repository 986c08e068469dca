"""Datasets on disk: the folder of a dataset, and the rows of its splits as padded batches of rows of similar length.

Memory does not grow with the size of a dataset. A split is cut into blocks of `ROW_GROUP` = 32,768 consecutive rows.
Rows are read, shuffled and put into batches in windows: of one block for sequences, of blocks of four gigabytes for
images. Blocks, and so batches, do not depend on how the rows are divided into shards and row groups.

Shapes: B rows of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core import renamed
from ape_cli.core.errors import DataError, UsageError, brief, pick
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import image_batches
from ape_cli.data.batches import WHOLE, Padding, SequenceBatch, Share, exact_length
from ape_cli.data.collation import PositionReading, Window, collate, whole_numbers
from ape_cli.data.image_batches import ImageBatch, ImageRows, Steps
from ape_cli.data.manifest import (
    DatasetPlan,
    Manifest,
    complete_manifest,
    missing_shards,
    open_shard,
    read_manifest,
)
from ape_cli.data.position_maps import RowPositions
from ape_cli.storage import files, image_rows
from ape_cli.storage.parquet import ROW_GROUP, read_group
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure import Seq, Structure, parse_structure
from ape_cli.tasks import BaseTask

_MOST_OPEN = 16  # shards; the others are opened again when they are read
_AT_ONCE = 1024  # rows whose positions are looked at together
_IMAGE_WINDOW = 2**32  # bytes of pixels in a window
_Window = TypeVar("_Window", Window, ImageRows)
_Batch = TypeVar("_Batch", SequenceBatch, ImageBatch)


@dataclass(frozen=True)
class BatchOptions:
    """How rows become batches. `Split` and `ImageSplit` describe the fields."""

    structure: str | Structure | None = None
    decoder_only: bool = False
    positions: RowPositions | None = None
    padding: Padding = exact_length
    augment: Steps = ()


class Dataset:
    """A dataset in a folder, which may be missing as long as it was not generated. `dataset.open` returns one.

    A split is opened when it is first requested, and its shards stay open.

    >>> from ape_cli import dataset
    >>> data = dataset.open("datasets/sample/tree-ops-breadth")
    >>> data.name, data.structure.expression, data.ids
    ('tree-ops-breadth', 'tree(2)', 135)
    """

    fingerprint: str  # hash of the content, 64 hexadecimal digits; empty for a dataset that was never generated
    mean_size: float  # mean of the distribution of sizes: symbols, levels, cells along a side, places or pixels
    mean_tokens: float  # tokens of a source of this size

    def __init__(
        self,
        folder: StoragePath,
        manifest: Manifest | None = None,
        *,
        plan: DatasetPlan | None = None,
        about: Any = None,
        fingerprint: str = "",
        made_by: BaseTask | None = None,
    ) -> None:
        """Describe a dataset by its manifest; or by its plan, and the mean sizes that a task or a record has (`about`).

        It is missing if it has no manifest, or if some of its shards are not there. `made_by` generates it; None if it
        is not known how. The fingerprint of a dataset without a manifest is given as far as it is known.
        """
        self.folder, self.made_by = folder, made_by
        self.missing = manifest is None or bool(missing_shards(folder, manifest))
        self.required: str | None = None  # the fingerprint that it must have once it is generated
        self.sizes: dict[str, int] = {}  # the results of `largest`, by `size_key`, also those that earlier runs tell of
        self._splits: dict[str, Split | ImageSplit] = {}
        if manifest is not None:
            plan, about, fingerprint = manifest.plan, manifest, manifest.fingerprint
            if not self.missing:
                self.manifest = manifest
        assert plan is not None
        self.plan, self.fingerprint = plan, fingerprint
        self.mean_size, self.mean_tokens = about.mean_size, about.mean_tokens
        self.task, self.order, self.structure = plan.task, plan.linearisation, plan.structure
        self.image, self.modality, self.parameters = plan.image, plan.modality, plan.parameters

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest. Raises `DataError` if it cannot be read, or if a shard is missing."""
        return complete_manifest(self.folder)

    def reload(self) -> None:
        """Take over what the manifest says, once it was generated. Raises the errors of `manifest`."""
        manifest, self.missing = self.manifest, False
        self.plan, self.fingerprint = manifest.plan, manifest.fingerprint
        self.mean_size, self.mean_tokens = manifest.mean_size, manifest.mean_tokens

    def largest(self, structure: Structure, *, decoder_only: bool = False) -> int:
        """The `extent` of the positions of the training split, sources and targets, read as `structure`.

        For sequences this is the place of the EOS of the longest one, and for trees the greatest depth. `decoder_only`:
        as a decoder-only model reads them, where targets continue the sequences of their sources. The training split is
        read once for each structure. Raises `DataError` if it cannot be read.
        """
        key = size_key(structure, decoder_only=decoder_only)
        if key not in self.sizes:
            train = self.split("train")
            assert isinstance(train, Split)
            batches = train.batches(_AT_ONCE, structure=structure, decoder_only=decoder_only)
            self.sizes[key] = max(structure.extent(positions) for batch in batches for positions in batch.places)
        return self.sizes[key]

    @cached_property
    def largest_size(self) -> int:
        """The largest `size` in the training split, which must not be empty. Raises `DataError` if it is unreadable."""
        return max(int(whole_numbers(part, "size").max()) for part in self.split("train").tables("size"))

    @property
    def name(self) -> str:
        """The name of the dataset's folder."""
        return self.folder.resolve().name

    @property
    def width(self) -> int:
        """The number of coordinates of a stored position."""
        return self.structure.width

    @property
    def vocabulary(self) -> list[str] | None:
        """The name of each id, or of each class. None if the dataset is missing and its task is not known."""
        if not self.missing:
            return list(self.manifest.vocabulary)
        return None if self.made_by is None else self.made_by.id_names

    @property
    def ids(self) -> int:
        """The size of the vocabulary, including PAD, SOS and EOS; for images, the number of classes."""
        return len(self.manifest.vocabulary)

    def split(self, name: str) -> Split | ImageSplit:
        """The split `train`, `validation` or `test`.

        Raises `UsageError` for another name, and `DataError` if a shard of the split is missing or damaged.
        """
        if pick("split", name, SPLITS) not in self._splits:
            split_type = Split if self.image is None else ImageSplit
            self._splits[name] = split_type(self.folder, self.manifest, name)
        return self._splits[name]


def size_key(structure: Structure, *, decoder_only: bool) -> str:
    """The key of a result of `Dataset.largest` in records."""
    return f"{structure.expression}, joined" if decoder_only else structure.expression


def open_dataset(folder: str | StoragePath) -> Dataset:
    """Open a dataset in a local folder, or at an address in an object store (`s3://…`, `gs://…`).

    Shards are opened, and compared with the manifest, when their split is first read. Raises `DataError` if the folder
    does not exist, if the dataset in it is incomplete, or if a shard is missing.
    """
    path = storage_path(folder)
    data = Dataset(path, read_manifest(path))
    if data.missing:
        data.reload()  # raises an error that names the shard
    return data


class Rows(ABC, Generic[_Window, _Batch]):
    """Base class of the rows of one split, which are read window by window. `split[:100]` has the first 100 of them."""

    def __init__(self, folder: StoragePath, manifest: Manifest, name: str) -> None:
        """Open the shards of the split, and check their digests. Raises `DataError` if one is missing or damaged."""
        self.folder, self.manifest, self.name = folder, manifest, name
        self._verified: set[int] = set()  # shards whose digests were checked
        self._kept: _Window | None  # the window that is the whole split, once it is read
        self._open = lru_cache(_MOST_OPEN)(self._opened)
        sizes = list(files.map_ordered(self._group_sizes, range(len(manifest.shards[name])), folder))
        self._groups = [(shard, i) for shard, groups in enumerate(sizes) for i in range(len(groups))]
        self._ends = list(accumulate(rows for groups in sizes for rows in groups))  # of the row groups, in the split
        self._choose(range(manifest.plan.rows[name]))

    def _choose(self, chosen: range) -> None:
        """Keep these rows of the split alone."""
        self.rows, self._chosen, self._kept = len(chosen), chosen, None
        self._blocks = [chosen[i : i + ROW_GROUP] for i in range(0, self.rows, ROW_GROUP)]

    def __len__(self) -> int:
        """The number of rows."""
        return self.rows

    def require_rows(self) -> None:
        """Raise `DataError` if there are none."""
        if not self.rows:
            got, fix = self.folder.resolve().name, "generate more rows, or choose other `data`"
            raise DataError(f"the {self.name} split is empty", got=got, fix=fix)

    def __repr__(self) -> str:
        """The split, its dataset and its size."""
        return f"<{self.name} of {self.folder}, {self.rows:,} rows>"

    def __getitem__(self, rows: slice) -> Self:
        """Consecutive rows, as `split[:1]`. Raises `UsageError` for anything else, such as `split[0]`."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise UsageError("a split can only be sliced", got=brief(rows), allowed="split[FIRST:END]")
        part = copy(self)
        part._choose(self._chosen[rows])
        return part

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
        options: BatchOptions | None = None,
        **changes: Any,
    ) -> Iterator[_Batch]:
        """Yield the batches of an epoch, starting at batch number `skip`. Every row is in exactly one batch.

        - `seed`: with a seed, the order is random and a function of (seed, epoch). Without one, sequences are ordered
          by length, and images by row.
        - `share`: (i, n) selects every n-th row of each batch from its row i on, for training in several processes.
        - `options`: how rows become batches. `changes` are options by name, which replace those.

        Raises `UsageError` if an argument is out of range, or an option does not apply to such data.
        """
        if "joined" in changes:
            renamed.warn_about("the argument joined", "decoder_only")
            changes["decoder_only"] = changes.pop("joined")
        collate = self._collate(seed, epoch, share, replace(options or BatchOptions(), **changes))
        for window, rows in self._epoch(batch_size, seed, epoch, skip):
            yield collate(window, rows)

    @abstractmethod
    def _collate(
        self, seed: int | None, epoch: int, share: Share, options: BatchOptions
    ) -> Callable[[_Window, I64], _Batch]:
        """The function that collates rows of a window into a batch. The arguments are those of `batches`."""

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


class Split(Rows[Window, SequenceBatch]):
    """The sequences of a split. Without a seed, batches are ordered by length.

    `batches` takes these options:

    - `structure`: the structure that positions are read as, an object or an expression; by default, that of the data.
    - `decoder_only`: make batches for a decoder-only model, in which each target follows its source directly.
    - `positions`: a map of positions along the linearisation; None for the place of each token. With a seed, positions
      are drawn again in every epoch; without one, they are drawn once for each row.
    - `padding`: a function from the length of the longest row in a batch to the padded length.

    >>> from ape_cli import dataset
    >>> test = dataset.open("datasets/sample/tree-ops-breadth").split("test")
    >>> len(test), len(test[:1]), test.steps(batch_size=2)
    (5, 1, 3)
    >>> [tuple(batch.source_ids.shape) for batch in test.batches(batch_size=2)]
    [(2, 5), (2, 15), (1, 21)]
    """

    def _collate(
        self, seed: int | None, epoch: int, share: Share, options: BatchOptions
    ) -> Callable[[Window, I64], SequenceBatch]:
        if options.augment:
            raise UsageError("only images are augmented", got=f"augment={options.augment}", fix="leave `augment` out")
        plan, structure = self.manifest.plan, options.structure
        reading = PositionReading.of(
            plan.structure,
            None if structure is None else parse_structure(structure),
            tagged=bool(plan.tagged),
            causal=bool(plan.causal),
            decoder_only=options.decoder_only,
            positions=options.positions,
        )
        reading = reading if seed is None else reading.of_epoch(epoch)
        return partial(collate, reading=reading, share=share, padding=options.padding)

    def check_positions(self, positions: RowPositions) -> None:
        """Check that a map has a position for every token of every row. Raises `UsageError` if it does not."""
        plan = self.manifest.plan
        closed = plan.structure == Seq()
        if positions.room(np.ones(1, dtype=np.int64)) is None:
            return
        for window, rows in self._epoch(self.rows or 1, None, 0, 0):
            read = window.source if plan.tagged else window.target
            sources, count = window.source.length_of(rows) + closed, read.length_of(rows)
            positions.check(window.row[rows], sources, count + (closed and not plan.tagged))

    def _window(self, part: pa.Table) -> Window:
        return Window.of(part)


class ImageSplit(Rows[ImageRows, ImageBatch]):
    """The images of a split. Without a seed, batches are in row order.

    `batches` takes the option `augment`, the augmentation steps. Their result is a function of (seed, epoch, row).
    """

    def _collate(
        self, seed: int | None, epoch: int, share: Share, options: BatchOptions
    ) -> Callable[[ImageRows, I64], ImageBatch]:
        if options != BatchOptions(augment=options.augment):
            what = "images have no sequences whose positions are read"
            raise UsageError(what, got=str(options), fix="give no option but `augment`")
        if options.augment and seed is None:
            raise UsageError("augmentation needs a seed")
        return partial(image_batches.collate, share=share, steps=options.augment, epoch_seed=(seed or 0, epoch))

    @property
    def _room(self) -> int:
        """As many images as fit into memory, so that a small dataset is decoded only once."""
        return max(ROW_GROUP, _IMAGE_WINDOW // math.prod(self.manifest.plan.image or (1,)))

    def _window(self, part: pa.Table) -> ImageRows:
        size = self.manifest.plan.image
        assert size is not None
        return ImageRows(
            row=whole_numbers(part, "row"),
            size=whole_numbers(part, "size"),
            pixels=image_rows.pixels(part, size),
            labels=whole_numbers(part, "label"),
        )


def _rows_in(blocks: Iterable[range]) -> int:
    """The number of rows of some blocks."""
    return sum(map(len, blocks))


def _epoch_rng(seed: int | None, epoch: int) -> np.random.Generator | None:
    """The random stream that decides the order of an epoch, or None without a seed."""
    return None if seed is None else np.random.default_rng([seed, epoch])
