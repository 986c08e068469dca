"""`ape --help` beside an interpreter that imports the two libraries that draw it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks._measure import Row, ape, pair_of, process

SUMMARY = "how soon `ape --help` is there"


def measure() -> Iterator[Row]:
    ours, theirs = ape("--help"), [sys.executable, "-c", "import typer, rich"]
    times = [(process(ours).wall, process(theirs).wall) for _ in range(16)][1:]
    pair = pair_of([a for a, _ in times], [b for _, b in times])
    absolute = {"ape --help s": pair.a, "import typer, rich s": pair.b}
    yield Row("ape --help / import typer, rich", pair.ratio, 1.5, low=pair.low, high=pair.high, absolute=absolute)
