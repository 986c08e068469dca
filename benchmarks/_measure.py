"""Measurements in pairs. The two sides take turns, so that drift of the machine affects both of them.

Units: seconds and bytes. A ratio has no unit. Figures are medians, and quartiles are given beside them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure: a ratio, the bar that it should meet, and the absolute values that it is computed from."""

    what: str
    value: float
    bar: float | None = None  # None: there is no requirement
    at_least: bool = False  # the bar is a minimum instead of a maximum
    low: float | None = None  # quartiles, if there are several measurements
    high: float | None = None
    absolute: dict[str, float] = field(default_factory=dict)  # name with unit -> value

    @property
    def met(self) -> bool | None:
        """Whether the value meets the bar. None if there is no bar."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar


@dataclass(frozen=True)
class Pair:
    """Two things that were measured in turn: median and quartiles of the ratios a/b, and the median of each."""

    ratio: float
    low: float
    high: float
    a: float
    b: float


def pair_of(a: list[float], b: list[float]) -> Pair:
    """The `Pair` of two lists of measurements, one value for each round."""
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    low, middle, high = quartiles(ratios)
    return Pair(middle, low, high, statistics.median(a), statistics.median(b))


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def paired(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Pair:
    """Measure the time of two functions, which are called in the order a b b a a b b a and so on.

    `clock` returns seconds; the default is elapsed time. The first `warmup` rounds are not counted.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for i in range(warmup + rounds):
        for which in (0, 1) if i % 2 else (1, 0):
            start = clock()
            (a, b)[which]()
            took = clock() - start
            if i >= warmup:
                seconds[which].append(took)
    return pair_of(*seconds)


@dataclass(frozen=True)
class Usage:
    """The resources that a finished process used, as the operating system reports them."""

    wall: float
    cpu: float  # user and system time, including that of its children
    peak: int  # peak resident bytes of its largest process


# A small process starts the command. The peak of a process includes the memory of its parent at the time of the start,
# so the parent has to be small.
_RUN = """
import json, os, subprocess, sys, time
start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
taken = {"wall": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss}
with open(sys.argv[1], "w") as file:
    json.dump(taken, file)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def process(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> Usage:
    """Run a command to its end. Raises `RuntimeError` with its last output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "usage.json"
        run = [sys.executable, "-I", "-S", "-c", _RUN, str(result), *command]
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(
            run, cwd=cwd, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout.decode()[-4000:]}")
        taken = json.loads(result.read_text())
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(taken["wall"], taken["cpu"], taken["peak"] * unit)


def ape(*words: str) -> list[str]:
    """The command `ape …` for this interpreter."""
    return [sys.executable, "-m", "ape_cli", *words]
