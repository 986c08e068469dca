"""A column of texts in a Parquet file, as a source of trees: each row is a document."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.core.errors import DataError, UsageError, unknown
from ape_cli.storage.dictionaries import check_indices
from ape_cli.storage.parquet import group_sizes, most_expanded

_AT_ONCE = 256  # rows in memory at once


def texts(content: bytes, column: str | None) -> Iterator[bytes | None]:
    """The texts of a column of a Parquet file, row by row, in UTF-8; None for a null.

    `column` may be None if there is only one column of texts.

    Raises `UsageError` if there is no such column, or if it is not clear which one is meant, and `DataError` if the
    file cannot be read, or if its texts are much larger than the file. The caller adds the name of the file.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            name = _chosen(file.schema_arrow, column)
            if max(group_sizes(file.metadata), default=0) > most_expanded(len(content)):
                raise DataError("a row group is too large", allowed=f"{most_expanded(len(content)):,} bytes")
        yield from _texts(content, name)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError("no complete Parquet file", got=str(error).partition("\n")[0]) from error


def _texts(content: bytes, name: str) -> Iterator[bytes | None]:
    """The texts of the column `name`. Equal texts are in memory only once."""
    most, total = most_expanded(len(content)), 0
    with pq.ParquetFile(pa.BufferReader(content), read_dictionary=[name]) as file:
        for batch in file.iter_batches(_AT_ONCE, columns=[name]):
            part = batch.column(0)
            check_indices(part)
            if pa.types.is_dictionary(part.type):  # the dictionary may have a few large texts for many rows
                part = pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.large_binary()))
            else:
                part = part.cast(pa.large_binary())
            for value in part:
                text = value.as_py()
                total += len(text or b"")
                if total > most:
                    raise DataError("the texts are much larger than the file", allowed=f"{most:,} bytes")
                yield text


def _chosen(schema: pa.Schema, column: str | None) -> str:
    """The name of the column of texts. Raises `UsageError` if there is none, or if it is not clear which."""
    names = [field.name for field in schema if _is_text(field.type)]
    if column is not None:
        if column not in names or names.count(column) > 1:
            raise unknown("column of texts", column, names)
        return column
    if len(names) != 1:
        raise UsageError(
            "the column of texts is not clear" if names else "the file has no column of texts",
            got=", ".join(schema.names),
            allowed=", ".join(names) or "a column of strings",
            fix="name it with --column" if names else "choose another file",
        )
    return names[0]


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has texts."""
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
