"""The encoding of the numbers in a dataset's Parquet files, compared with encodings that more programs read.

The rows of three tasks at their default sizes (those of the preprint), in row groups of 32,768 rows, are written and
read again with each encoding in turn, by one thread, with zstd. The files are in the memory of the machine
(`/dev/shm`) if it has such a folder, so that the disk is not measured. The ratio is that of the other encoding to ours.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli import tasks
from ape_cli.storage import parquet
from benchmarks._measure import Row, quartiles

SUMMARY = "size, writing time and reading time of other encodings, divided by those of BYTE_STREAM_SPLIT"

TASKS = ("copy", "tree-copy", "tree-ops")
ROWS = 100_000
ROUNDS = 5
OURS = "BYTE_STREAM_SPLIT"
OTHERS = ("PLAIN", "dictionary", "DELTA_BINARY_PACKED")
_BLOCK = 2048  # rows that are generated at once


def measure() -> Iterator[Row]:
    """The ratios of each encoding on the rows of each task."""
    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())  # as in `ape gen`
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:  # noqa: PTH112
        for task in TASKS:
            yield from _of_task(task, Path(folder) / "rows.parquet")


def _of_task(name: str, path: Path) -> Iterator[Row]:
    """The ratios of each encoding on the rows of a task."""
    task = tasks.make(name)
    blocks = (range(first, min(first + _BLOCK, ROWS)) for first in range(0, ROWS, _BLOCK))
    table = pa.concat_tables(task.sample(rows=block, split="train", seed=42) for block in blocks).combine_chunks()
    measured: dict[str, dict[str, list[float]]] = {
        encoding: {"size": [], "write": [], "read": []} for encoding in (OURS, *OTHERS)
    }
    for turn in range(1 + ROUNDS):
        for encoding in list(measured)[:: 1 if turn % 2 else -1]:
            write = time.perf_counter()
            with _writer(path, table.schema, encoding) as writer:
                writer.write_table(table, row_group_size=parquet.ROW_GROUP)
            read = time.perf_counter()
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group, use_threads=False)
            end = time.perf_counter()
            if turn:  # the first one warms up
                for what, value in (("size", path.stat().st_size), ("write", read - write), ("read", end - read)):
                    measured[encoding][what].append(value)
    for encoding in OTHERS:
        for what, unit in (("size", "bytes"), ("write", "s"), ("read", "s")):
            others, ours = measured[encoding][what], measured[OURS][what]
            low, ratio, high = quartiles([a / b for a, b in zip(others, ours, strict=True)])
            absolute = {f"{encoding} {unit}": statistics.median(others), f"{OURS} {unit}": statistics.median(ours)}
            yield Row(f"{name}, {what}: {encoding} / {OURS}", ratio, low=low, high=high, absolute=absolute)


def _writer(path: Path, schema: pa.Schema, encoding: str) -> pq.ParquetWriter:
    """The writer of a shard, with this encoding for the columns of integers."""
    if encoding == OURS:
        return parquet.writer(path, schema)
    numbers = [leaf for field in schema for leaf in parquet._numbers(field.name, field.type)]
    how: dict[str, Any] = {"use_dictionary": ["op"], "column_encoding": dict.fromkeys(numbers, encoding)}
    if encoding == "dictionary":
        how = {"use_dictionary": True}
    return pq.ParquetWriter(path, schema, compression="zstd", write_statistics=["row"], **how)
