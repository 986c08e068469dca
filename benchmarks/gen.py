"""The time of `ape gen`, compared with the time to write the rows that it generates.

- Ours is the elapsed time of a whole process `ape gen TASK --n 100000`, minus that of `python -c pass`. It includes
  importing typer, numpy and pyarrow, drawing sources and computing targets, hashing, the Parquet files, fsync, SHA-256,
  the manifest and the card.
- Theirs is the time that pyarrow takes in another new process to write the same tables to the same disk. The tables are
  read into memory from the generated files before. All shards are written, row group by row group, with the settings of
  our writer. The time is from opening the first file to closing the last one, without fsync and without imports.

Each process writes once, on one thread. CPU times (user and system) are given beside.

The row of workers compares rows/s of the whole process, including its start, with 2 workers and with 1, for 2,000,000
rows.
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

SUMMARY = "time of `ape gen`, divided by the time to write its rows"

BARS: dict[str, float | None] = {
    "tree-copy": 2.0,
    "tree-rotate": 2.0,
    "c3": 2.0,
    "tree-ops": 2.0,
    "copy": 1.5,
    "reverse": 1.5,
    "repeat": 1.5,
    # these have no bar on the ratio; each generates at least 20,000 rows/s, mazes excepted
    **dict.fromkeys(["addition", "associative-recall", "flip-flop", "group-word", "modular", "list-ops"]),
    **dict.fromkeys(["list-ops-tree", "tree-query", "tree-convert", "grid-path", "box-rotate", "forest-reverse"]),
    **dict.fromkeys(["forest-rotate", "word-grid-rotate", "quadtree-expand"]),
}
ROUNDS = 5


def measure() -> Iterator[Row]:
    """The ratio of each task to its bar, and the gain of a second worker."""
    with tempfile.TemporaryDirectory() as here:
        for task, bar in BARS.items():
            yield from _beside_writing(task, bar, Path(here))
        if (os.cpu_count() or 1) > 1:
            yield _workers("tree-rotate", Path(here))


def _beside_writing(task: str, bar: float | None, here: Path) -> Iterator[Row]:
    """The elapsed time and the CPU time of generating a task, divided by those of writing."""
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
    del ours[0], theirs[0]  # the first round warms the caches of the disk
    for what, bound, a, b in (
        ("", bar, [x.wall for x in ours], [x.wall for x in theirs]),
        (", CPU time", None, [x.cpu for x in ours], [x.cpu for x in theirs]),
    ):
        pair = pair_of(a, b)
        absolute = {"ape gen s": pair.a, "writing s": pair.b, "rows/s": 102_000 / pair.a}
        yield Row(f"{task} / writing{what}", pair.ratio, bound, low=pair.low, high=pair.high, absolute=absolute)


def generate(task: str, n: int, out: Path, workers: int = 1) -> Usage:
    """Run `ape gen` with `n` training rows. -> what the process used"""
    return process(ape("gen", task, "--n", str(n), "--workers", str(workers), "--out", str(out), "--overwrite"))


def write(dataset: str, result: str) -> None:
    """Write the tables of a dataset again, and store the time that this took in the file `result`."""
    pa.set_cpu_count(1)
    shards = []
    for path in sorted((Path(dataset) / "data").glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            shards.append([file.read_row_group(i).combine_chunks() for i in range(file.num_row_groups)])
    with tempfile.TemporaryDirectory(dir=Path(dataset).parent) as out:
        wall, cpu = time.perf_counter(), time.process_time()
        for i, groups in enumerate(shards):
            with parquet.writer(Path(out) / f"{i}.parquet", groups[0].schema) as writer:
                for group in groups:
                    writer.write_table(group, row_group_size=parquet.ROW_GROUP)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    Path(result).write_text(json.dumps({"wall": wall, "cpu": cpu, "peak": 0}))


def _workers(task: str, here: Path) -> Row:
    """Rows per second of 2 workers, divided by those of 1 worker."""
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
