"""Data loading: read the shards of a dataset and yield padded batches of rows of similar length.

Memory does not grow with the size of the dataset. Rows are read, shuffled and put into batches in windows: of 32,768
consecutive rows for sequences, of four gigabytes for images. The order of an epoch does not depend on shards.

Shapes: B rows of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from ape_cli.core.errors import DataError, UsageError, pick
from ape_cli.core.rng import I64
from ape_cli.core.vocabulary import SPLITS
from ape_cli.data import image_batches
from ape_cli.data.batches import Padding, SequenceBatch, Share, exact_length
from ape_cli.data.collation import Window, collate, whole_numbers
from ape_cli.data.image_batches import ImageBatch, ImageRows, Steps
from ape_cli.data.manifest import Manifest, missing_shards, read_manifest
from ape_cli.data.plan import DatasetInfo, size_key
from ape_cli.data.position_maps import RowPositions
from ape_cli.data.reading import Reading
from ape_cli.data.windows import Rows
from ape_cli.storage import image_rows
from ape_cli.storage.parquet import ROW_GROUP
from ape_cli.storage.paths import StoragePath, storage_path
from ape_cli.structure import Seq, Structure, parse_structure


class Dataset(DatasetInfo):
    """A complete dataset on disk. `dataset.open` returns one.

    A split is opened when it is first requested, and its shards stay open.

    >>> from ape_cli import dataset
    >>> data = dataset.open("datasets/sample/tree-ops-breadth")
    >>> data.name, data.structure.expression, data.ids
    ('tree-ops-breadth', 'tree(2)', 135)
    """

    missing = False

    def __init__(self, folder: StoragePath, manifest: Manifest) -> None:
        """Take the folder and its manifest as they are, without reading the shards."""
        super().__init__(manifest.plan, manifest.mean_size, manifest.mean_tokens, manifest.fingerprint)
        self.folder, self.manifest = folder, manifest
        self.sizes: dict[str, int] = {}  # the results of `largest`, by `size_key`
        self._splits: dict[str, Split | ImageSplit] = {}

    def largest(self, read: Structure, *, joined: bool = False) -> int:
        """See `DatasetInfo`. It reads the training split once for each structure. Raises `DataError` if it cannot."""
        key = size_key(read, joined=joined)
        if key not in self.sizes:
            train = self.split("train")
            assert isinstance(train, Split)
            batches = train.batches(_AT_ONCE, structure=read, joined=joined)
            placed = (at for batch in batches for at in batch.places)
            self.sizes[key] = max(read.extent(at) for at in placed)
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
        return self.plan.width

    @property
    def ids(self) -> int:
        """The size of the vocabulary, including PAD, SOS and EOS; for images, the number of classes."""
        return len(self.manifest.vocabulary)

    def split(self, name: str) -> Split | ImageSplit:
        """The split `train`, `validation` or `test`.

        Raises `UsageError` for another name, and `DataError` if a shard of the split is missing or damaged.
        """
        if pick("split", name, SPLITS) not in self._splits:
            kind = Split if self.image is None else ImageSplit
            self._splits[name] = kind(self.folder, self.manifest, name)
        return self._splits[name]


_AT_ONCE = 1024  # rows whose positions are looked at together
_IMAGE_WINDOW = 2**32  # bytes of pixels in a window


class Split(Rows[Window, SequenceBatch]):
    """The sequences of a split. Without a seed, batches are ordered by length.

    `batches` takes these options:

    - `structure`: the structure that positions are read as, an object or an expression; by default, that of the data.
    - `joined`: make batches for a decoder-only model, in which each target follows its source directly.
    - `positions`: a map of positions along the linearisation; None for the place of each token. With a seed, positions
      are drawn again in every epoch; without one, they are drawn once for each row.
    - `padding`: a function from the length of the longest row in a batch to the padded length.

    >>> from ape_cli import dataset
    >>> test = dataset.open("datasets/sample/tree-ops-breadth").split("test")
    >>> test.rows, test.steps(batch_size=2)
    (5, 3)
    >>> [tuple(batch.source_ids.shape) for batch in test.batches(batch_size=2)]
    [(2, 5), (2, 15), (1, 21)]
    """

    def _collate(
        self,
        seed: int | None,
        epoch: int,
        share: Share,
        *,
        structure: str | Structure | None = None,
        joined: bool = False,
        positions: RowPositions | None = None,
        padding: Padding = exact_length,
    ) -> Callable[[Window, I64], SequenceBatch]:
        plan, read_as = self.manifest.plan, None if structure is None else parse_structure(structure)
        reading = Reading.of(plan.structure, read_as, tagged=bool(plan.tagged), joined=joined, drawn=positions)
        if positions is not None and not reading.is_line:
            what = "a map of positions acts on the place of a token along the linearisation"
            raise UsageError(what, got=f"structure {reading.wanted.expression}", fix="leave `positions` out")
        drawn = positions if positions is None or seed is None else positions.of_epoch(epoch)
        return partial(collate, reading=reading, share=share, padding=padding, drawn=drawn)

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
        self, seed: int | None, epoch: int, share: Share, *, augment: Steps = ()
    ) -> Callable[[ImageRows, I64], ImageBatch]:
        if augment and seed is None:
            raise UsageError("augmentation needs a seed")
        return partial(image_batches.collate, share=share, steps=augment, epoch_seed=(seed or 0, epoch))

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


def open_dataset(folder: str | StoragePath) -> Dataset:
    """Open a dataset in a local folder, or at an address in an object store (`s3://…`, `gs://…`).

    Shards are opened, and compared with the manifest, when their split is first read. Raises `DataError` if the folder
    does not exist, if the dataset in it is incomplete, or if a shard is missing.
    """
    path = storage_path(folder)
    manifest = read_manifest(path)
    if missing := missing_shards(path, manifest):
        again = "run the same `ape gen` command again"
        raise DataError("a shard is missing", got=str(path / missing[0]), fix=again)
    return Dataset(path, manifest)
