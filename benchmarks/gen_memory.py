"""Peak memory of `ape gen` for different numbers of rows: resident bytes of the whole process, with one worker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks._measure import Row
from benchmarks.gen import generate

SUMMARY = "peak memory of `ape gen` for 2,000,000 rows, divided by that for 100,000"


def measure() -> Iterator[Row]:
    """The ratio of peaks."""
    with tempfile.TemporaryDirectory() as here:
        few, many = (generate("tree-rotate", n, Path(here) / str(n)).peak for n in (100_000, 2_000_000))
    absolute = {"100,000 rows MB": few / 1e6, "2,000,000 rows MB": many / 1e6}
    yield Row("tree-rotate: 2,000,000 rows / 100,000 rows", many / few, 1.2, absolute=absolute)
