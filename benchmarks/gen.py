"""`ape gen` beside the writing of what it generates.

Ours: the wall time of a whole process `ape gen TASK --n 100000`, less that of `python -c pass`. All else is in it:
importing typer, numpy and pyarrow, drawing and answering, hashing, the Parquet files, fsync, SHA-256, the manifest
and the card. Theirs: in another fresh process, the time that pyarrow takes to write the same tables, which it has
read back from the generated files into memory: all shards, row group by row group, with our own writer's settings,
to the same disk, from opening the first file to closing the last one, without fsync and without importing anything.
Both write once in the life of their process, on one thread each; CPU times (user and system) stand beside.

Workers: rows/s of the whole process, start included, with 2 workers over 1, for 2,000,000 rows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ape_cli.storage import parquet
from benchmarks._measure import Row, Usage, ape, pair_of, process

SUMMARY = "how much longer generating takes than writing"

BARS = {"tree-copy": 2.0, "tree-rotate": 2.0, "c3": 2.0, "tree-ops": 2.0, "copy": 1.5, "reverse": 1.5, "repeat": 1.5}
ROUNDS = 5


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as here:
        for task, bar in BARS.items():
            yield from _beside_writing(task, bar, Path(here))
        if (os.cpu_count() or 1) > 1:
            yield _workers("tree-rotate", Path(here))


def _beside_writing(task: str, bar: float, here: Path) -> Iterator[Row]:
    ours, theirs = [], []
    for _ in range(1 + ROUNDS):
        start = process([sys.executable, "-c", "pass"])
        took = generate(task, 100_000, here / task)
        ours.append(Usage(took.wall - start.wall, took.cpu - start.cpu, took.peak))
        result = here / "written.json"
        process(
            [sys.executable, "-c", f"from benchmarks.gen import write; write({str(here / task)!r}, {str(result)!r})"]
        )
        theirs.append(Usage(**json.loads(result.read_text())))
    del ours[0], theirs[0]  # a first time, to warm the disk's caches
    for what, bound, a, b in (
        ("", bar, [x.wall for x in ours], [x.wall for x in theirs]),
        (", CPU time", None, [x.cpu for x in ours], [x.cpu for x in theirs]),
    ):
        pair = pair_of(a, b)
        absolute = {"ape gen s": pair.a, "writing s": pair.b}
        yield Row(f"{task} / writing{what}", pair.ratio, bound, low=pair.low, high=pair.high, absolute=absolute)


def generate(task: str, n: int, out: Path, workers: int = 1) -> Usage:
    return process(ape("gen", task, "--n", str(n), "--workers", str(workers), "--out", str(out), "--overwrite"))


def write(dataset: str, result: str) -> None:
    """Write the tables of a dataset once more, and what that took to `result`."""
    pa.set_cpu_count(1)
    shards = []
    for path in sorted((Path(dataset) / "data").glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            shards.append([file.read_row_group(i).combine_chunks() for i in range(file.num_row_groups)])
    with tempfile.TemporaryDirectory(dir=Path(dataset).parent) as out:
        wall, cpu = time.perf_counter(), time.process_time()
        for i, groups in enumerate(shards):
            with parquet.writer(Path(out) / f"{i}.parquet") as writer:
                for group in groups:
                    writer.write_table(group, row_group_size=parquet.ROW_GROUP)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    Path(result).write_text(json.dumps({"wall": wall, "cpu": cpu, "peak": 0}))


def _workers(task: str, here: Path) -> Row:
    n = 2_000_000
    walls: dict[int, list[float]] = {1: [], 2: []}
    for i in range(3):
        for workers in (1, 2) if i % 2 else (2, 1):
            walls[workers].append(generate(task, n, here / "workers", workers).wall)
    pair = pair_of(walls[1], walls[2])
    absolute = {"1 worker rows/s": n / pair.a, "2 workers rows/s": n / pair.b}
    return Row(
        f"{task}: 2 workers / 1 worker", pair.ratio, 1.8, at_least=True, low=pair.low, high=pair.high, absolute=absolute
    )
