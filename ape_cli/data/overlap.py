"""The overlap of splits: validation and test rows whose source is also in the training split.

A hash of the source says which split it may be in (`tasks/_task.py`), so splits overlap only if there are too few
sources, or if a source of images has some of them twice. The rows are counted as they are stored. Sources are compared
by hashes of 64 bits, so that a row takes ten bytes of memory.

Shapes: R rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ape_cli import tasks
from ape_cli.core.errors import ApeError
from ape_cli.core.rng import U64
from ape_cli.data.manifest import DatasetPlan, Manifest, Overlap, Shard, open_shard
from ape_cli.storage import files, image_rows, sequence_rows
from ape_cli.storage.parquet import read_group
from ape_cli.storage.paths import StoragePath

if TYPE_CHECKING:
    from ape_cli.data.loader import Dataset

_NAMED_ABOVE = 0.05  # the share of the rows of a size above which the size is named


class Sources(NamedTuple):
    """What is known of the sources of some rows."""

    keys: U64  # [R], a hash of each source
    sizes: np.ndarray  # uint16 [R]


def of_dataset(folder: StoragePath, manifest: Manifest) -> Overlap:
    """The overlap that the manifest of a dataset has. It is counted if an earlier version wrote the manifest.

    Raises `DataError` if a shard is missing or cannot be read.
    """
    return manifest.stored_overlap or of_shards(folder, manifest.plan, manifest.shards)


def between(training: Dataset, data: Dataset, split: str) -> Overlap:
    """Count the rows of a split of a dataset whose source is in the training split of the same or another dataset.

    Nothing is read if both are drawn by one task with sources enough, at whatever sizes, because then no source is in
    two splits. Raises `DataError` if a shard is missing or cannot be read.
    """
    if split != "train" and _division(training) == _division(data) and _keeps_apart(training) and _keeps_apart(data):
        return Overlap({split: 0}, [])
    return _count(_read(training, "train").keys, {split: _read(data, split)}, named=data.image is None)


def _division(data: Dataset) -> tuple[Any, ...]:
    """What decides the split of a source: other options may change the identity of a source that is stored alike."""
    sizes = ["sizes"]
    with suppress(ApeError):  # the task may not be installed here
        sizes += tasks.load(data.task).replaced_by_sizes()
    return data.task, data.plan.code, {k: v for k, v in data.parameters.items() if k not in sizes}


def _keeps_apart(data: Dataset) -> bool:
    """Whether the rows are drawn, each with a source that can stand in no other split."""
    is_drawn = data.manifest.sources is None and data.image is None
    return is_drawn and not any(shard.shared for shards in data.manifest.shards.values() for shard in shards)


def of_shards(
    folder: StoragePath,
    plan: DatasetPlan,
    shards: Mapping[str, Iterable[Shard]],
    read: Mapping[str, Sources] = MappingProxyType({}),
) -> Overlap:
    """Count the overlap of the splits. `read` are the sources of shards by file; those of others are read here.

    Raises `DataError` if a shard is missing or cannot be read.
    """

    def sources(shard: Shard) -> Sources:
        return read[shard.file] if shard.file in read else _stored(folder, plan, shard)

    splits = {split: joined(files.map_ordered(sources, parts, folder)) for split, parts in shards.items()}
    return _count(splits.pop("train").keys, splits, named=plan.image is None)


def joined(parts: Iterable[Sources]) -> Sources:
    """The sources of several parts, in order."""
    none = Sources(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint16))
    return Sources(*map(np.concatenate, zip(none, *parts, strict=True)))


def _count(training: U64, held_out: Mapping[str, Sources], *, named: bool) -> Overlap:
    """Count the rows of each split whose source is among those in training. `named`: whether sizes are named."""
    seen = np.sort(training)
    rows: dict[str, int] = {}
    sizes: set[int] = set()
    for split, part in held_out.items():
        order = np.argsort(part.keys)  # searching for keys in order is ten times as fast
        keys, of_size = part.keys[order], part.sizes[order]
        is_seen = np.searchsorted(seen, keys, "right") > np.searchsorted(seen, keys)
        rows[split] = int(is_seen.sum())
        often = np.bincount(of_size, weights=is_seen) > _NAMED_ABOVE * np.bincount(of_size)
        sizes.update(np.flatnonzero(often).tolist())
    return Overlap(rows, sorted(sizes) if named else [])


def _read(data: Dataset, split: str) -> Sources:
    """The sources of a split."""
    plan, shards = data.manifest.plan, data.manifest.shards[split]
    return joined(files.map_ordered(lambda shard: _stored(data.folder, plan, shard), shards, data.folder))


def _stored(folder: StoragePath, plan: DatasetPlan, shard: Shard) -> Sources:
    """The sources of a shard. Only their columns are read. Raises `DataError` if it is missing or cannot be read."""
    columns = ["source_ids", "source_positions"] if plan.image is None else ["row", "image"]
    parts = []
    with open_shard(folder, plan, shard, verify=False) as file:
        for number in range(file.num_row_groups):
            part = read_group(file, number, shard.file, [*columns, "size"])
            keys = sequence_rows.sources(part) if plan.image is None else image_rows.sources(part, plan.image)
            parts.append(Sources(keys, part["size"].to_numpy()))
    return joined(parts)
