"""Parquet files of a dataset: how they are written, and how they are opened and checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.sequence_rows import SCHEMA

ROW_GROUP = 32_768  # rows
_SPLIT = "BYTE_STREAM_SPLIT"


def writer(path: Path, wanted: pa.Schema = SCHEMA) -> pq.ParquetWriter:
    """BYTE_STREAM_SPLIT and zstd without dictionaries: smaller and faster on such data."""
    encoding = dict.fromkeys((leaf for field in wanted for leaf in _numbers(field.name, field.type)), _SPLIT)
    return pq.ParquetWriter(
        path,
        wanted,
        compression="zstd",
        use_dictionary=[name for name in wanted.names if name == "op"],
        column_encoding=encoding,
        write_statistics=["row"],
    )


def _numbers(path: str, kind: pa.DataType) -> list[str]:
    """The column of numbers at a path of the schema, if there is one."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _numbers(f"{path}.list.element", kind.value_type)
    return [path] if pa.types.is_integer(kind) else []


def _told(found: pa.Schema) -> str:
    at = found.get_field_index("source_positions")
    return ", ".join(found.names) + (f"; positions are {found.field(at).type}" if at >= 0 else "")


def read_shard(path: StoragePath, wanted: pa.Schema = SCHEMA) -> pq.ParquetFile:
    """An open shard, if it is a Parquet file of the schema."""
    try:
        # in an object store, the columns of a row group come by few requests
        file = pq.ParquetFile(path.opened(), pre_buffer=True) if isinstance(path, RemotePath) else pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {path}", got=str(error).splitlines()[0], fix="generate it again") from error
    if not file.schema_arrow.equals(wanted):
        raise DataError(
            f"{path} is a Parquet file of another schema",
            got=_told(file.schema_arrow),
            allowed=_told(wanted),
            fix="point to a folder that `ape gen` wrote",
        )
    return file
