"""A shard: its Arrow schema by the number of coordinates of a position, and the rows in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli import streams
from ape_cli.errors import DataError
from ape_cli.place import Place, Remote
from ape_cli.streams import I64, U64
from ape_cli.structure import Cyclic, Structure, Tree

PAD, SOS, EOS, FIRST_SYMBOL = 0, 1, 2, 3
ROW_GROUP = 32_768  # rows
_SPLIT = "BYTE_STREAM_SPLIT"

_LISTS = {
    "source_ids": "uint16",
    "source_positions": "uint64",
    "target_ids": "uint16",
    "target_positions": "uint64",
}


def shard(width: int = 1) -> pa.Schema:
    """The schema of a shard whose positions have `width` coordinates."""
    fields = [pa.field("row", pa.uint64(), nullable=False)]
    for name, kind in _LISTS.items():
        element = pa.field("element", getattr(pa, kind)(), nullable=False)
        if width > 1 and name.endswith("positions"):
            element = pa.field("element", pa.list_(element, width), nullable=False)
        fields.append(pa.field(name, pa.list_(element), nullable=False))
    fields += [pa.field("size", pa.uint16(), nullable=False), pa.field("op", pa.dictionary(pa.int32(), pa.string()))]
    return pa.schema(fields)


SHARD = shard()  # of version 1


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

    wanted = shard(1 if source[1].ndim == 1 else source[1].shape[1])

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
    same = streams.unsigned(values) if kind == pa.uint64() else values.astype(kind.to_pandas_dtype(), copy=False)
    numbers = np.ascontiguousarray(same)
    return pa.Array.from_buffers(kind, numbers.size, [None, pa.py_buffer(numbers)])


def positions(column: pa.ListArray) -> U64:
    """The positions of all rows, flat. [T], or [T, C] where they have several coordinates."""
    flat = column.values
    if pa.types.is_fixed_size_list(flat.type):
        return flat.flatten().to_numpy().reshape(-1, flat.type.list_size)
    return flat.to_numpy()


def writer(path: Path, wanted: pa.Schema = SHARD) -> pq.ParquetWriter:
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


def content(part: pa.Table) -> tuple[int, int]:
    """Two 64-bit sums over the rows' hashes; sums of parts add up, whatever the parts are."""
    word = part["row"].to_numpy().astype(np.uint64)
    starts, at, where = (np.zeros(0, dtype=np.uint64),) * 3
    for name in ("source", "target"):
        ids, places = (_whole(part[f"{name}_{what}"]) for what in ("ids", "positions"))
        before, starts = starts, ids.offsets.to_numpy().astype(np.int64)
        there, at = at, streams.fold(positions(places))
        if not (
            np.array_equal(before, starts) and np.array_equal(there, at)
        ):  # a target may stand where its source does
            where = _placed(starts, at)
        word = streams.mix(word + streams.content(starts, where, ids.values.to_numpy()))
    word = streams.mix(word + part["size"].to_numpy().astype(np.uint64) * np.uint64(256) + _codes(part["op"]))
    return int(word.sum(dtype=np.uint64)), int(streams.child(word, "second").sum(dtype=np.uint64))


def _placed(starts: I64, at: U64) -> U64:
    """A hash of each position and its place in its row. [R+1], [T] -> [T]"""
    place = np.arange(starts[-1])
    place -= np.repeat(starts[:-1], np.diff(starts))
    place <<= 40
    return streams.mix(place.view(np.uint64) + at)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array: its only chunk, or a copy of all."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _codes(op: pa.ChunkedArray) -> U64:
    """The number of each row's operator in the list of their names, 99 for none. [R]"""
    if op.null_count == len(op):
        return np.full(len(op), 99, dtype=np.uint64)
    return _whole(op).indices.fill_null(99).to_numpy().astype(np.uint64)


def check_rows(part: pa.Table, own: Structure, ids: int) -> None:
    """Every id is in the vocabulary, and every position one that the structure has; else a `DataError`."""
    for side in ("source", "target"):
        symbol = part[f"{side}_ids"].combine_chunks().values.to_numpy()
        if symbol.size and not FIRST_SYMBOL <= symbol.min() <= symbol.max() < ids:
            wrong = symbol[(symbol < FIRST_SYMBOL) | (symbol >= ids)][0]
            raise DataError(
                f"a {side} id is not in the vocabulary", got=wrong, allowed=f"{FIRST_SYMBOL} to {ids - 1}", fix=_AGAIN
            )
        at = positions(part[f"{side}_positions"].combine_chunks())
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
    """The least and the greatest coordinate that a dataset may store."""
    if isinstance(factor, Tree):
        return 1, int(factor.level_start(factor.max_depth + 1)) - 1
    return 0, factor.order - 1 if isinstance(factor, Cyclic) else 2**63 - 2  # 1 is added to it


def _told(found: pa.Schema) -> str:
    at = found.get_field_index("source_positions")
    return ", ".join(found.names) + (f"; positions are {found.field(at).type}" if at >= 0 else "")


def read_shard(path: Place, wanted: pa.Schema = SHARD) -> pq.ParquetFile:
    """An open shard, if it is a Parquet file of the schema."""
    try:
        # in an object store, the columns of a row group come by few requests
        file = pq.ParquetFile(path.opened(), pre_buffer=True) if isinstance(path, Remote) else pq.ParquetFile(path)
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
