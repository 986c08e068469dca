"""Checks of a dataset on disk: its shards and their content against the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli import tasks
from ape_cli.core import budget
from ape_cli.core.errors import ApeError, DataError
from ape_cli.core.version import version
from ape_cli.data.manifest import Manifest, Shard, manifest_path
from ape_cli.data.plan import DatasetPlan
from ape_cli.data.row_checks import operators
from ape_cli.storage import files, image_rows, sequence_rows
from ape_cli.storage.parquet import check_length, read_group, read_shard
from ape_cli.storage.paths import StoragePath

_OVERWRITE = "run the same `ape gen` command with --overwrite, or restore the file"


def check_shards(folder: StoragePath, manifest: Manifest) -> None:
    """Check that every shard exists and has the bytes that were generated.

    Raises `DataError` that names the first shard that fails.
    """
    every = [shard for shards in manifest.shards.values() for shard in shards]
    for _ in files.each(lambda shard: check_shard(folder, shard), every, folder):
        pass


def open_shard(folder: StoragePath, manifest: Manifest, shard: Shard) -> pq.ParquetFile:
    """Open a shard. Only its footer is read.

    Raises `DataError` if it cannot be read, has another schema than the plan's, or has not the manifest's rows.
    """
    file = read_shard(folder / shard.file, manifest.plan.shard)
    _check_size(folder / shard.file, file.metadata)
    if file.metadata.num_rows != shard.rows:
        raise DataError(
            f"a shard has another number of rows: {folder / shard.file}",
            got=f"{file.metadata.num_rows:,} rows",
            allowed=f"{shard.rows:,} rows (manifest.json)",
            fix=_OVERWRITE,
        )
    return file


def _check_size(path: StoragePath, about: pq.FileMetaData) -> None:
    """Check that the row groups of a shard are not too large to be read. Raises `DataError` otherwise."""
    for group in map(about.row_group, range(about.num_row_groups)):
        columns = [group.column(i) for i in range(group.num_columns)]
        values, size = max(c.num_values for c in columns), sum(c.total_uncompressed_size for c in columns)
        repeated = any(c.path_in_schema == "image.bytes" and c.has_dictionary_page for c in columns)
        if values > budget.GROUP_VALUES or size > budget.memory() or repeated:
            got = "repeated images" if repeated else f"{values:,} values, {size:,} bytes"
            allowed = f"{budget.GROUP_VALUES:,} values in a column, {budget.memory():,} bytes, each image once"
            raise DataError(f"a row group of {path} is too large", got=got, allowed=allowed, fix=_OVERWRITE)


def group_rows(folder: StoragePath, manifest: Manifest, split: str) -> list[list[int]]:
    """The number of rows of each row group, for each shard of a split. No shard stays open.

    Raises `DataError` like `open_shard`.
    """

    def rows(shard: Shard) -> list[int]:
        with open_shard(folder, manifest, shard) as file:
            return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

    return list(files.each(rows, manifest.shards[split], folder))


class ContentCheck:
    """Compares the rows of a split with the content sums in the manifest, while the row groups are read.

    Each row group counts once. A shard is compared when all of its row groups have been read.
    """

    def __init__(self, manifest: Manifest, split: str, groups: Sequence[int]) -> None:
        """Nothing is read yet. `groups` has the number of row groups of each shard."""
        self.shards, self.image = manifest.shards[split], manifest.plan.image
        self._left = [set(range(count)) for count in groups]
        self._sums = [(0, 0)] * len(groups)
        self._ops: list[str] | None = None  # unknown
        with suppress(ApeError):  # the task may be a plug-in that is not installed here
            self._ops = list(tasks.load(manifest.plan.task).ops)

    def add(self, shard: int, group: int, part: pa.Table) -> None:
        """Take the rows of a row group. Raises `DataError` if the rows of a shard are not those of the manifest."""
        if group not in self._left[shard]:
            return
        self._left[shard].remove(group)
        if self.image is None:
            self._check_operators(part, self.shards[shard])
        self._sums[shard] = content_sum(self._sums[shard], _content(part, self.image))
        if not self._left[shard] and self._sums[shard] != self.shards[shard].content:
            raise DataError(
                f"the rows of a shard are not those that were generated: {self.shards[shard].file}",
                got=f"content {self._sums[shard]}",
                allowed=f"content {self.shards[shard].content} (manifest.json)",
                fix=_OVERWRITE,
            )

    def _check_operators(self, part: pa.Table, shard: Shard) -> None:
        """Check the names of the operators, which the content sums do not cover. Raises `DataError` otherwise."""
        if self._ops is None or part["op"].null_count == len(part):
            return
        names = operators(part)
        if names != self._ops:
            got, allowed = (", ".join(map(str, found)) for found in (names, self._ops))
            raise DataError(f"{shard.file} names other operators", got=got, allowed=allowed, fix=_OVERWRITE)


def content_of(path: StoragePath, plan: DatasetPlan) -> tuple[int, int]:
    """The content sums of the rows in a shard, which are read one row group at a time.

    Raises `DataError` if the shard cannot be read or has another schema than the plan's, and `ValueError` if the rows
    are not valid.
    """
    total = (0, 0)
    with read_shard(path, plan.shard) as file:
        _check_size(path, file.metadata)
        for group in range(file.num_row_groups):
            total = content_sum(total, _content(read_group(file, group, path), plan.image))
    return total


def _content(part: pa.Table, image: image_rows.Size | None) -> tuple[int, int]:
    """The content sums of a table. `image` is the size of the images; None for sequences."""
    return sequence_rows.content(part) if image is None else image_rows.content(part, image)


def content_sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Add two content sums: pairs of numbers modulo 2^64."""
    return (x[0] + y[0]) % 2**64, (x[1] + y[1]) % 2**64


def check_shard(folder: StoragePath, shard: Shard) -> None:
    """Check that a shard exists and that its SHA-256 is the one in the manifest.

    Raises `DataError` if it is missing, cannot be read or was changed.
    """
    path = folder / shard.file
    if not path.is_file():
        raise DataError("a shard is missing", got=str(path), fix="run the same `ape gen` command again")
    try:
        check_length(path)
        digest = files.sha256(path)
    except (OSError, pa.ArrowException) as error:
        got = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"cannot read {path}", got=got, fix="restore it, or make it readable") from error
    if digest != shard.sha256:
        raise DataError(
            f"a shard was altered or truncated: {path}",
            got=f"sha256 {digest[:16]}…",
            allowed=f"sha256 {shard.sha256[:16]}… (manifest.json)",
            fix=_OVERWRITE,
        )


def check_remade(known: Manifest, made: dict[str, Shard]) -> None:
    """Compare shards that were generated again with the manifest. Raises `DataError` if one differs."""
    for shards in known.shards.values():
        for old in shards:
            new = made.get(old.file)
            if new is not None and new != old:
                raise DataError(
                    f"a shard is missing, and these versions generate a different one: {old.file}",
                    got=f"made with pyarrow {pa.__version__} and ape {version()}",
                    allowed=f"made with {known.versions}",
                    fix="--overwrite generates the whole dataset again",
                )


def check_same(folder: StoragePath, known: Manifest, made: Manifest) -> None:
    """Compare a manifest without a digest with the one that is written now. Raises `DataError` if they differ."""
    for name in Manifest.model_fields.keys() - {"versions"}:
        if (there := getattr(known, name)) != (now := getattr(made, name)):
            raise DataError(
                f"{manifest_path(folder)} was altered: {name} is not the one of the dataset",
                got=there,
                allowed=now,
                fix="restore the file, or generate the dataset again with --overwrite",
            )
