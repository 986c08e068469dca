"""Parquet files of a dataset: write shards, and open shards with a check of their schema."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

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
_NOTE = b"ape"  # the key of the note in the footer
_OVERWRITE = "run the same `ape gen` command with --overwrite, or restore the file"
_BLOCK = 2**20  # bytes that are hashed at once


def writer(path: Path, wanted: pa.Schema = SCHEMA) -> pq.ParquetWriter:
    """Open a Parquet writer for a shard with the schema `wanted`. `add_note` adds to its footer.

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


def add_note(writer: pq.ParquetWriter, note: dict[str, Any]) -> None:
    """Put a note into the footer of a shard, for the command that completes an interrupted dataset."""
    writer.add_key_value_metadata({_NOTE: json.dumps(note)})


def _numbers(path: str, kind: pa.DataType) -> list[str]:
    """The path of the leaf column of integers in a (nested) field: a list of one path, or an empty list."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _numbers(f"{path}.list.element", kind.value_type)
    return [path] if pa.types.is_integer(kind) else []


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


def _described(schema: pa.Schema) -> str:
    """Describe a schema for an error message."""
    at = schema.get_field_index("source_positions")
    return ", ".join(schema.names) + (f"; positions are {schema.field(at).type}" if at >= 0 else "")


def read_shard(
    path: StoragePath, wanted: pa.Schema = SCHEMA, rows: int | None = None, sha256: str | None = None
) -> pq.ParquetFile:
    """Open a shard, and check its schema and the sizes of its row groups; row data is not read yet.

    If `rows` or `sha256` is given, the number of rows or the digest of the file is compared with it. The file is
    opened once for all checks.

    Raises `DataError` if the file is missing, was altered or is too large, cannot be read as Parquet, or has another
    schema than `wanted`.
    """
    if not path.is_file():
        raise DataError("a shard is missing", got=str(path), fix="run the same `ape gen` command again")
    try:
        if path.stat().st_size > budget.SHARD_BYTES:
            raise files.too_large(path, budget.SHARD_BYTES)
        source = path.opened() if isinstance(path, RemotePath) else pa.OSFile(str(path))
        if sha256 is not None:
            _check_digest(path, source, sha256)
        # pre_buffer reads the columns of a row group with few requests to the object store
        file = pq.ParquetFile(source, pre_buffer=isinstance(path, RemotePath))
        schema = file.schema_arrow
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        got = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"cannot read {path}", got=got, fix="restore it, or generate it again") from error
    if not schema.equals(wanted):
        raise DataError(
            f"{path} is a Parquet file with another schema",
            got=_described(schema),
            allowed=_described(wanted),
            fix="point to a folder that `ape gen` wrote",
        )
    if rows not in (None, file.metadata.num_rows):
        raise DataError(
            f"a shard has another number of rows: {path}", got=file.metadata.num_rows, allowed=rows, fix=_OVERWRITE
        )
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        values = max(group.column(number).num_values for number in range(group.num_columns))
        if values > budget.GROUP_VALUES or group.total_byte_size > budget.memory():
            got = f"{values:,} values, {group.total_byte_size:,} bytes"
            allowed = f"{budget.GROUP_VALUES:,} values in a column, {budget.memory():,} bytes"
            raise DataError(f"a row group of {path} is too large", got=got, allowed=allowed, fix="use --shard-rows")
    return file


def _check_digest(path: StoragePath, source: Any, expected: str) -> None:
    """Compare the SHA-256 of an open file with the one in the manifest. Raises `DataError` if they differ."""
    digest = hashlib.sha256()
    while block := source.read(_BLOCK):
        digest.update(block)
    source.seek(0)
    if digest.hexdigest() != expected:
        raise DataError(
            f"a shard was altered or truncated: {path}",
            got=f"sha256 {digest.hexdigest()[:16]}…",
            allowed=f"sha256 {expected[:16]}… (manifest.json)",
            fix=_OVERWRITE,
        )


def read_note(path: StoragePath) -> dict[str, Any]:
    """What the writer of a shard noted in its footer (`writer`); empty if the file has no valid note.

    Raises `DataError` if the footer cannot be read.
    """
    try:
        with pq.ParquetFile(path.opened() if isinstance(path, RemotePath) else path.absolute()) as file:
            note = json.loads((file.metadata.metadata or {}).get(_NOTE, b"{}"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise DataError(f"cannot read {path}", got=str(error).splitlines()[0], fix="remove it") from error
    return note if isinstance(note, dict) else {}
