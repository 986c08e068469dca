"""Checks of a dataset on disk: its shards against the manifest, and their rows against vocabulary and structure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError
from ape_cli.core.vocabulary import FIRST_SYMBOL
from ape_cli.data.manifest import Manifest, Shard
from ape_cli.storage import files, sequence_rows
from ape_cli.storage.parquet import read_shard
from ape_cli.storage.paths import StoragePath
from ape_cli.structure import Cyclic, Structure, Tree


def check_shards(folder: StoragePath, manifest: Manifest) -> None:
    """Check that every shard exists and has the bytes that were generated.

    Raises `DataError` that names the first shard that fails.
    """
    every = [shard for shards in manifest.shards.values() for shard in shards]
    for _ in files.each(lambda shard: check_shard(folder, shard), every, folder):
        pass


def read_shards(folder: StoragePath, manifest: Manifest, split: str) -> list[pq.ParquetFile]:
    """Open the shards of a split. Raises `DataError` if one cannot be read or has another schema than the plan's."""
    wanted = manifest.plan.shard
    return list(files.each(lambda s: read_shard(folder / s.file, wanted), manifest.shards[split], folder))


def check_shard(folder: StoragePath, shard: Shard) -> None:
    """Check that a shard exists and that its SHA-256 is the one in the manifest.

    Raises `DataError` if it is missing, cannot be read or was changed.
    """
    path = folder / shard.file
    if not path.is_file():
        raise DataError("a shard is missing", got=str(path), fix="run the same `ape gen` command again")
    try:
        digest = files.sha256(path)
    except OSError as error:
        raise DataError(f"cannot read {path}", got=error.strerror, fix="make it readable") from error
    if digest != shard.sha256:
        raise DataError(
            f"a shard was altered or truncated: {path}",
            got=f"sha256 {digest[:16]}…",
            allowed=f"sha256 {shard.sha256[:16]}… (manifest.json)",
            fix="run the same `ape gen` command with --overwrite, or restore the file",
        )


def check_rows(part: pa.Table, own: Structure, ids: int) -> None:
    """Check that every id is in the vocabulary, and that every position exists in the structure.

    `own` is the structure of the dataset, and `ids` the size of its vocabulary. Raises `DataError` otherwise.
    """
    for side in ("source", "target"):
        symbol = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if symbol.size and not FIRST_SYMBOL <= symbol.min() <= symbol.max() < ids:
            wrong = symbol[(symbol < FIRST_SYMBOL) | (symbol >= ids)][0]
            raise DataError(
                f"a {side} id is not in the vocabulary", got=wrong, allowed=f"{FIRST_SYMBOL} to {ids - 1}", fix=_AGAIN
            )
        at = sequence_rows.positions(part[f"{side}_positions"].combine_chunks())
        for factor, coordinate in zip(own.simple, at.reshape(-1, own.width).T, strict=True):
            low, high = _range(factor)
            least, greatest = (int(coordinate.min()), int(coordinate.max())) if coordinate.size else (low, low)
            if least < low or greatest > high:
                deep = " (a path too deep for a heap index?)" if isinstance(factor, Tree) else ""
                raise DataError(
                    f"a {side} position is not one of {factor.expression}{deep}",
                    got=greatest if greatest > high else least,
                    allowed=f"{low} to {high}",
                    fix=_AGAIN,
                )


_AGAIN = "generate it again"


def _range(factor: Structure) -> tuple[int, int]:
    """The smallest and the largest coordinate that a dataset may store for a factor of its structure."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # collation adds 1
