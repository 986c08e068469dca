"""A shard: its Arrow schema by the number of coordinates of a position, and the rows in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ape_cli.core import rng
from ape_cli.core.rng import I64, U64

_LISTS = {
    "source_ids": "uint16",
    "source_positions": "uint64",
    "target_ids": "uint16",
    "target_positions": "uint64",
}


def schema(width: int = 1) -> pa.Schema:
    """The schema of a shard whose positions have `width` coordinates."""
    fields = [pa.field("row", pa.uint64(), nullable=False)]
    for name, kind in _LISTS.items():
        element = pa.field("element", getattr(pa, kind)(), nullable=False)
        if width > 1 and name.endswith("positions"):
            element = pa.field("element", pa.list_(element, width), nullable=False)
        fields.append(pa.field(name, pa.list_(element), nullable=False))
    fields += [pa.field("size", pa.uint16(), nullable=False), pa.field("op", pa.dictionary(pa.int32(), pa.string()))]
    return pa.schema(fields)


SCHEMA = schema()  # of version 1


def table(
    row: U64,
    source: tuple[I64, I64, I64],
    target: tuple[I64, I64, I64],
    size: I64,
    op: I64 | None,
    op_names: list[str],
) -> pa.Table:
    """A table of a shard's schema from whole arrays; `source` and `target` are (starts, positions, ids).

    Positions are [T], or [T, C] where they have several coordinates.
    """

    wanted = schema(1 if source[1].ndim == 1 else source[1].shape[1])

    def lists(name: str, starts: I64, values: I64) -> pa.ListArray:
        kind = wanted.field(name).type  # spelled out: its inner field is "element", as the Parquet standard says
        if values.ndim == 1:
            return pa.ListArray.from_arrays(_array(starts, pa.int32()), _array(values, kind.value_type), type=kind)
        flat = _array(values.ravel(), kind.value_type.value_type)
        tuples = pa.FixedSizeListArray.from_arrays(flat, type=kind.value_type)
        return pa.ListArray.from_arrays(_array(starts, pa.int32()), tuples, type=kind)

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
    return pa.table(columns, schema=wanted)


def _array(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """An Arrow array of a type of numbers, over the same memory where that is its type already. [T]

    Not by `pa.array`, nor by a cast afterwards: the first use of those imports for as long as 10,000 rows take.
    """
    same = rng.unsigned(values) if kind == pa.uint64() else values.astype(kind.to_pandas_dtype(), copy=False)
    numbers = np.ascontiguousarray(same)
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(numbers)])


def positions(column: pa.ListArray) -> U64:
    """The positions of all rows, flat. [T], or [T, C] where they have several coordinates."""
    flat = column.values
    if pa.types.is_fixed_size_list(flat.type):
        return flat.flatten().to_numpy().reshape(-1, flat.type.list_size)
    return flat.to_numpy()


def content(part: pa.Table) -> tuple[int, int]:
    """Two 64-bit sums over the rows' hashes; sums of parts add up, whatever the parts are."""
    word = part["row"].to_numpy().astype(np.uint64)
    starts, at, where = (np.zeros(0, dtype=np.uint64),) * 3
    for name in ("source", "target"):
        ids, places = (_whole(part[f"{name}_{what}"]) for what in ("ids", "positions"))
        before, starts = starts, ids.offsets.to_numpy().astype(np.int64)
        there, at = at, rng.fold(positions(places))
        if not (
            np.array_equal(before, starts) and np.array_equal(there, at)
        ):  # a target may stand where its source does
            where = _placed(starts, at)
        word = rng.mix(word + rng.content(starts, where, ids.values.to_numpy()))
    word = rng.mix(word + part["size"].to_numpy().astype(np.uint64) * np.uint64(256) + _codes(part["op"]))
    return int(word.sum(dtype=np.uint64)), int(rng.child(word, "second").sum(dtype=np.uint64))


def _placed(starts: I64, at: U64) -> U64:
    """A hash of each position and its place in its row. [R+1], [T] -> [T]"""
    place = np.arange(starts[-1])
    place -= np.repeat(starts[:-1], np.diff(starts))
    place <<= 40
    return rng.mix(place.view(np.uint64) + at)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array: its only chunk, or a copy of all."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _codes(op: pa.ChunkedArray) -> U64:
    """The number of each row's operator in the list of their names, 99 for none. [R]"""
    if op.null_count == len(op):
        return np.full(len(op), 99, dtype=np.uint64)
    return _whole(op).indices.fill_null(99).to_numpy().astype(np.uint64)
