"""How things are measured: in pairs, in turn, so that the machine's own drift falls on both sides.

Units: seconds, bytes; a ratio is without unit. Medians are quoted, with the quartiles beside them.
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
    """One figure: a ratio, what it should be, and the absolute values that it is made of."""

    what: str
    value: float
    bar: float | None = None  # None: nothing is asked of it
    at_least: bool = False  # the bar is a floor; else it is a ceiling
    low: float | None = None  # quartiles, where there are several measurements
    high: float | None = None
    absolute: dict[str, float] = field(default_factory=dict)  # name with unit -> value

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar


@dataclass(frozen=True)
class Pair:
    """Of two things measured in turn: the ratios a/b, and each one's own median."""

    ratio: float
    low: float
    high: float
    a: float
    b: float


def pair_of(a: list[float], b: list[float]) -> Pair:
    ratios = [x / y for x, y in zip(a, b, strict=True)]
    low, middle, high = quartiles(ratios)
    return Pair(middle, low, high, statistics.median(a), statistics.median(b))


def quartiles(values: list[float]) -> tuple[float, float, float]:
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
    """Time of two functions, called in turn: a b b a a b b a ..., on the wall or on another clock."""
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
    """What a finished process took, by the operating system's own account."""

    wall: float
    cpu: float  # user and system, its children's included
    peak: int  # resident bytes, of its largest process


# A small process between this one and the command: a peak counts what stood in memory when the command was begun, and
# that is all that its parent has.
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
    """Run a command to its end; a failure is an error with what it said."""
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
    """The command line `ape …`, with this interpreter."""
    return [sys.executable, "-m", "ape_cli", *words]
