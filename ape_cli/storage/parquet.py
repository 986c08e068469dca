"""Parquet files of a dataset: write shards, and open shards with a check of their schema and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError
from ape_cli.core.memory import half_memory
from ape_cli.storage import files
from ape_cli.storage.object_store import too_large
from ape_cli.storage.paths import StoragePath
from ape_cli.storage.sequence_rows import SCHEMA

ROW_GROUP = 32_768  # rows
_SHARD_BYTES = 64 * 2**30  # the most that a shard may have
_SPLIT = "BYTE_STREAM_SPLIT"
_NOTE = b"ape"  # the key of the note in the footer
AGAIN = "restore the file, or generate the dataset again with `ape gen … --overwrite`"
_AT_ONCE = 1024  # rows of values


def writer(path: Path, schema: pa.Schema = SCHEMA) -> pq.ParquetWriter:
    """Open a Parquet writer for a shard with this schema. `add_note` adds to its footer.

    Columns of integers use the encoding BYTE_STREAM_SPLIT and zstd compression, without dictionaries. This is smaller
    and faster for such data.
    """
    encoding = dict.fromkeys((leaf for field in schema for leaf in _numbers(field.name, field.type)), _SPLIT)
    return pq.ParquetWriter(
        path.absolute(),  # pyarrow takes `a1:/x` for the address of a file system
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name == "op"],
        column_encoding=encoding,
        write_statistics=["row"],
    )


def add_note(writer: pq.ParquetWriter, note: dict[str, Any]) -> None:
    """Put a note into the footer of a shard. `note_of` reads it."""
    writer.add_key_value_metadata({_NOTE: json.dumps(note)})


def note_of(file: pq.ParquetFile) -> dict[str, Any]:
    """The note in the footer of an open shard; empty if it has no valid note."""
    try:
        note = json.loads((file.metadata.metadata or {}).get(_NOTE, b"{}"))
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _numbers(path: str, data_type: pa.DataType) -> list[str]:
    """The path of the leaf column of integers in a (nested) field: a list of one path, or an empty list."""
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return _numbers(f"{path}.list.element", data_type.value_type)
    return [path] if pa.types.is_integer(data_type) else []


def is_text(data_type: pa.DataType) -> bool:
    """Whether a column of this type has texts, such as JSON."""
    if pa.types.is_dictionary(data_type):
        return is_text(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return is_text(data_type.storage_type)
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)


def is_bytes(data_type: pa.DataType) -> bool:
    """Whether a column of this type has bytes of any length."""
    return pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_binary_view(data_type)


def check_groups(file: pq.ParquetFile, name: Any) -> None:
    """Check that each row group of an open file fits into half of the memory. Raises `DataError` otherwise."""
    # only the sizes of whole groups: pyarrow ends the process if the description of a column is damaged
    size = max((file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), default=0)
    if size > (maximum := half_memory()):
        got, allowed = f"{size:,} bytes, decompressed", f"{maximum:,} bytes"
        raise DataError(f"a row group of {name} is too large", got=got, allowed=allowed, fix="write smaller row groups")


@contextmanager
def reading(what: str, fix: str | None = None) -> Iterator[None]:
    """Turn errors of pyarrow and of the disk in this block into `DataError`.

    Running out of memory does not mean that a file is damaged, and stays a `MemoryError`.
    """
    try:
        yield
    except MemoryError:
        raise
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        got = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        got = "a text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else got
        raise DataError(what, got=got, fix=files.how_to_read(error, fix)) from error


def read_shard(path: StoragePath, schema: pa.Schema = SCHEMA, sha256: str | None = None) -> pq.ParquetFile:
    """Open a shard, and check its schema and the sizes of its row groups; row data is not read yet.

    If `sha256` is given, the digest of the file is compared with it.

    Raises `DataError` if the file is missing, was altered or is too large, cannot be read as Parquet, or has another
    schema.
    """
    if not path.is_file():
        raise DataError("a shard is missing", got=str(path), fix="run the same `ape gen` command again")
    with reading(f"cannot read {path}", "restore it, or generate it again"):
        if path.stat().st_size > _SHARD_BYTES:
            raise too_large(path, _SHARD_BYTES)
        source = files.source(path)
        if sha256 is not None:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            source.seek(0)
            if digest != sha256:
                what, got = f"a shard was altered or truncated: {path}", f"sha256 {digest[:16]}…"
                raise DataError(what, got=got, allowed=f"sha256 {sha256[:16]}…", fix=AGAIN)
        file = pq.ParquetFile(source, pre_buffer=True)  # it reads the columns of a row group with few requests
        stored = file.schema_arrow
    if not stored.equals(schema):
        raise DataError(
            f"{path} has an unexpected schema", got=str(stored), fix="point to a folder that `ape gen` wrote"
        )
    check_groups(file, path)
    return file


def read_group(file: pq.ParquetFile, number: int, name: str | StoragePath, columns: Sequence[str] = ()) -> pa.Table:
    """Read a row group of an open shard, or only the named columns. `name` is that of the shard in messages.

    Raises `DataError` if it cannot be read.
    """
    with reading(f"cannot read {name}", "generate it again"):
        return file.read_row_group(number, list(columns) or None)


def values(content: bytes, columns: Sequence[str], maximum: int) -> Iterator[list[bytes | None]]:
    """Yield the rows of some columns of texts (in UTF-8) or bytes in a Parquet file; None for a null.

    `content` is the file. If its columns declare more than `maximum` bytes, nothing is decompressed. Equal values are
    in memory only once.

    Raises `DataError` if the columns have more than `maximum` bytes or another type, or if the file cannot be read. The
    caller adds the name of the file.
    """
    total, too_large = 0, DataError("the values are too large", allowed=f"{maximum:,} bytes, decompressed")
    try:
        with reading("not a complete Parquet file"):
            for batch in _batches(content, columns, maximum, too_large):
                batch.validate(full=True)  # pyarrow does not check the indices into a dictionary when it reads them
                for row in zip(*(batch.column(name) for name in columns), strict=True):
                    buffers = [_buffer(value) if value.is_valid else b"" for value in row]
                    if (total := total + sum(map(len, buffers))) > maximum:
                        raise too_large
                    yield [
                        bytes(buffer) if value.is_valid else None for buffer, value in zip(buffers, row, strict=True)
                    ]
    except (KeyError, AttributeError) as error:  # a column is missing, or has values of another type
        raise DataError(f"it has no text columns named {' and '.join(columns)}") from error


def _batches(content: bytes, columns: Sequence[str], maximum: int, too_large: DataError) -> Iterator[pa.RecordBatch]:
    """The rows of some columns of a Parquet file, in batches. Equal values of a batch are in memory only once.

    pyarrow makes no dictionary of values in an encoding such as DELTA_BYTE_ARRAY. Then each batch has a single row.
    """
    done = 0
    for dictionaries, at_once in ((columns, _AT_ONCE), ([], 1)):
        # not a file of Python: a thread of pyarrow may release it when the process has ended, which aborts the process
        with pq.ParquetFile(pa.BufferReader(content), read_dictionary=dictionaries) as file:
            if sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)) > maximum:
                raise too_large
            try:
                batches = file.iter_batches(at_once, columns=columns, use_threads=False)
                for batch in islice(batches, done // at_once, None):
                    yield batch
                    done += len(batch)
                return
            except OSError:
                if not dictionaries:
                    raise


def _buffer(value: pa.Scalar) -> pa.Buffer:
    """The bytes of a text or of bytes, which may be in a dictionary or have a type of its own, such as JSON."""
    while isinstance(value, pa.DictionaryScalar | pa.ExtensionScalar):
        value = value.value
    return value.as_buffer()
