"""Parquet files of a dataset: write shards, and open shards with a check of their schema."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core import budget
from ape_cli.core.errors import DataError
from ape_cli.storage import files
from ape_cli.storage.dictionaries import check_indices
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.sequence_rows import SCHEMA

ROW_GROUP = 32_768  # rows
_SPLIT = "BYTE_STREAM_SPLIT"


def writer(path: Path, wanted: pa.Schema = SCHEMA) -> pq.ParquetWriter:
    """Open a Parquet writer for a shard with the schema `wanted`.

    Columns of integers use the encoding BYTE_STREAM_SPLIT and zstd compression, without dictionaries. This is smaller
    and faster for such data.
    """
    encoding = dict.fromkeys((leaf for field in wanted for leaf in _numbers(field.name, field.type)), _SPLIT)
    return pq.ParquetWriter(
        path.absolute(),  # pyarrow takes `a1:/x` for the address of a file system
        wanted,
        compression="zstd",
        use_dictionary=[name for name in wanted.names if name == "op"],
        column_encoding=encoding,
        write_statistics=["row"],
    )


def _numbers(path: str, kind: pa.DataType) -> list[str]:
    """The path of the leaf column of integers in a (nested) field: a list of one path, or an empty list."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _numbers(f"{path}.list.element", kind.value_type)
    return [path] if pa.types.is_integer(kind) else []


def check_length(path: StoragePath) -> None:
    """Check that a large Parquet file is no hole and not longer than its content, before all of its bytes are read.

    Raises `OSError` otherwise, and `pyarrow.ArrowException` if it is no Parquet file.
    """
    size = path.stat().st_size
    if size <= budget.PARQUET_BYTES:
        return
    with pq.ParquetFile(path.opened() if isinstance(path, RemotePath) else path.absolute()) as file:
        content = sum(group_sizes(file.metadata))
    if size > content + budget.PARQUET_BYTES:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, of which at most {content:,} are data", str(path))
    if files.is_hole(path):
        raise OSError(errno.EFBIG, f"most of its {size:,} bytes were never written", str(path))


def group_sizes(about: pq.FileMetaData) -> list[int]:
    """The bytes of each row group of a file, decompressed, as its footer says.

    The sizes of single columns would be more exact, but pyarrow ends the process if the description of a column is
    damaged.
    """
    return [about.row_group(number).total_byte_size for number in range(about.num_row_groups)]


def most_expanded(size: int) -> int:
    """The most bytes that a user's file of `size` bytes may have in a row group or in a column of texts."""
    return max(budget.SOLID_BYTES, budget.COLUMN_EXPANSION * size)


def read_group(file: pq.ParquetFile, number: int, name: str | StoragePath) -> pa.Table:
    """Read a row group of an open shard. `name` is that of the shard in messages.

    Raises `DataError` if it cannot be read, or if an index of a dictionary is not in it.
    """
    try:
        part = file.read_row_group(number)
        for column in part.columns:
            for chunk in column.chunks:
                check_indices(chunk)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"cannot read {name}", got=str(error).splitlines()[0], fix="generate it again") from error
    return part


def _told(found: pa.Schema) -> str:
    """Describe a schema for an error message."""
    at = found.get_field_index("source_positions")
    return ", ".join(found.names) + (f"; positions are {found.field(at).type}" if at >= 0 else "")


def read_shard(path: StoragePath, wanted: pa.Schema = SCHEMA) -> pq.ParquetFile:
    """Open a shard and check its schema; row data is not read yet.

    Raises `DataError` if the file cannot be read as Parquet, or if its schema is not `wanted`.
    """
    try:
        # pre_buffer reads the columns of a row group with few requests to the object store
        file = (
            pq.ParquetFile(path.opened(), pre_buffer=True)
            if isinstance(path, RemotePath)
            else pq.ParquetFile(path.absolute())
        )
        found = file.schema_arrow
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}", got=str(error).splitlines()[0], fix="generate it again") from error
    if not found.equals(wanted):
        raise DataError(
            f"{path} is a Parquet file with another schema",
            got=_told(found),
            allowed=_told(wanted),
            fix="point to a folder that `ape gen` wrote",
        )
    return file
