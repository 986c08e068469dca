"""Rows of a sequence dataset: the Arrow schema of a shard, its positions and its content hash.

The schema depends on the number of coordinates of a position.

Shapes: R rows, T tokens (of all rows together), C coordinates of a position.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ape_cli.core import ragged, rng
from ape_cli.core.errors import DataError
from ape_cli.core.rng import I64, U64

_LISTS = {"source_ids": "uint16", "source_positions": "uint64", "target_ids": "uint16", "target_positions": "uint64"}


_Side = tuple[I64, I64, I64]


def schema(width: int = 1) -> pa.Schema:
    """The Arrow schema of a shard whose positions have `width` coordinates."""
    fields = [pa.field("row", pa.uint64(), nullable=False)]
    for name, integer_type in _LISTS.items():
        element = pa.field("element", getattr(pa, integer_type)(), nullable=False)
        if width > 1 and name.endswith("positions"):
            element = pa.field("element", pa.list_(element, width), nullable=False)
        fields.append(pa.field(name, pa.list_(element), nullable=False))
    fields += [pa.field("size", pa.uint16(), nullable=False), pa.field("op", pa.dictionary(pa.int32(), pa.string()))]
    return pa.schema(fields)


SCHEMA = schema()  # the schema of version 1 of the format


def table(row: U64, source: _Side, target: _Side, size: I64, op: I64 | None, op_names: list[str]) -> pa.Table:
    """Build a table with the schema of a shard.

    `source` and `target` are triples (starts, positions, ids): `starts` is int64 [R+1], `ids` is int64 [T], and
    `positions` is int64 [T], or [T, C] for positions with several coordinates. Each side has its own T. `row` is uint64
    [R] and `size` is int64 [R]. `op` is int64 [R], indices into `op_names`, or None if the rows have no operator.
    Raises `DataError` for a size or an id that does not fit into its column.
    """

    shard = schema(1 if source[1].ndim == 1 else source[1].shape[1])

    def lists(name: str, starts: I64, values: I64) -> pa.ListArray:
        """The list column `name` from flat values, [T] or [T, C], that `starts` cuts into rows."""
        list_type = shard.field(name).type  # must be explicit: the Parquet standard calls the inner field "element"
        if values.ndim == 1:
            return pa.ListArray.from_arrays(
                _array(starts, pa.int32()), _array(values, list_type.value_type), type=list_type
            )
        flat = _array(values.ravel(), list_type.value_type.value_type)
        tuples = pa.FixedSizeListArray.from_arrays(flat, type=list_type.value_type)
        return pa.ListArray.from_arrays(_array(starts, pa.int32()), tuples, type=list_type)

    ops = pa.nulls(row.size, pa.int32()) if op is None else _array(op, pa.int32())
    columns = [
        _array(row, pa.uint64()),
        lists("source_ids", source[0], source[2]),
        lists("source_positions", source[0], source[1]),
        lists("target_ids", target[0], target[2]),
        lists("target_positions", target[0], target[1]),
        _array(size, pa.uint16()),
        pa.DictionaryArray.from_arrays(ops, pa.array(op_names, pa.string())),
    ]
    return pa.table(columns, schema=shard)


def _array(values: np.ndarray, data_type: pa.DataType) -> pa.Array:
    """Convert a NumPy array of integers, [T], to an Arrow array, without a copy if the type is the same.

    Raises `DataError` for a number that does not fit.
    `pa.array` and a cast afterwards are avoided: their first use imports modules for as long as 10,000 rows take.
    """
    same = rng.unsigned(values) if data_type == pa.uint64() else values.astype(data_type.to_pandas_dtype(), copy=False)
    if data_type != pa.uint64() and not np.array_equal(same, values):
        wrong = values[same != values][0]
        allowed = f"0 to {np.iinfo(same.dtype).max}"
        raise DataError("a size or an id is out of range", got=wrong, allowed=allowed, fix="correct the task")
    numbers = np.ascontiguousarray(same)
    return pa.Array.from_buffers(data_type, numbers.size, [None, pa.py_buffer(numbers)])


def positions(column: pa.ListArray) -> U64:
    """The positions of all rows, flat: uint64 [T], or [T, C] for positions with several coordinates."""
    flat = column.values
    if pa.types.is_fixed_size_list(flat.type):
        return flat.flatten().to_numpy().reshape(-1, flat.type.list_size)
    return flat.to_numpy()


def content(part: pa.Table) -> tuple[int, int]:
    """Hash the rows of a table: two 64-bit sums, modulo 2^64, over the hashes of the rows.

    The sums of several parts can be added, and the result does not depend on how the rows are divided into parts.
    """
    word = part["row"].to_numpy().astype(np.uint64)
    for side in _sides(part):
        word = rng.mix(word + side)
    word = rng.mix(word + part["size"].to_numpy().astype(np.uint64) * np.uint64(256) + _codes(part["op"]))
    return int(word.sum(dtype=np.uint64)), int(rng.child(word, "second").sum(dtype=np.uint64))


def sources(part: pa.Table) -> U64:
    """Hash the source of each row of a table: its symbols and their positions, in order. Returns uint64 [R]."""
    return next(_sides(part))


def _sides(part: pa.Table) -> Iterator[U64]:
    """Yield a hash of the source of each row, then one of its target: uint64 [R]"""
    starts, at, where = (np.zeros(0, dtype=np.uint64),) * 3
    for name in ("source", "target"):
        ids, position_column = (_whole(part[f"{name}_{what}"]) for what in ("ids", "positions"))
        before, starts = starts, ids.offsets.to_numpy().astype(np.int64)
        earlier, at = at, rng.fold(positions(position_column))
        # if the target has the positions of the source, the hash of the positions is reused
        if not (np.array_equal(before, starts) and np.array_equal(earlier, at)):
            where = _placed(starts, at)
        yield rng.content(starts, where, ids.values.to_numpy())


def _placed(starts: I64, at: U64) -> U64:
    """Hash each position together with its index in its row.

    `starts`: int64 [R+1]; `at`: uint64 [T], the hashes of the positions. Returns uint64 [T].
    """
    index = ragged.indices_of(starts)
    index <<= 40
    return rng.mix(index.view(np.uint64) + at)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array: its only chunk, or a concatenated copy."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _codes(op: pa.ChunkedArray) -> U64:
    """The index of each row's operator in the dictionary of names, 99 for none. Returns uint64 [R]."""
    if op.null_count == len(op):
        return np.full(len(op), 99, dtype=np.uint64)
    return _whole(op).indices.fill_null(99).to_numpy().astype(np.uint64)
