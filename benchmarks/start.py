"""`ape --help`, compared with an interpreter that only imports typer and rich.

A second row gives the help of an application with two empty commands. This is what typer itself needs: it imports
`typer.rich_utils`, and with it rich's Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks._measure import Row, ape, pair_of, process

SUMMARY = "time of `ape --help`"

_LEAST = """
import typer
app = typer.Typer()
app.command("a")(lambda: None)
app.command("b")(lambda: None)
app()
"""


def measure() -> Iterator[Row]:
    """The ratio of `ape --help`, and that of the smallest typer application."""
    imports = [sys.executable, "-c", "import typer, rich"]
    smallest = [sys.executable, "-c", _LEAST, "--help"]
    times = [[process(command).wall for command in (ape("--help"), imports, smallest)] for _ in range(16)][1:]
    ours, theirs, others = ([row[i] for row in times] for i in range(3))
    pair = pair_of(ours, theirs)
    absolute = {"ape --help s": pair.a, "import typer, rich s": pair.b}
    yield Row("ape --help / import typer, rich", pair.ratio, 1.5, low=pair.low, high=pair.high, absolute=absolute)
    pair = pair_of(others, theirs)
    absolute = {"least --help s": pair.a, "import typer, rich s": pair.b}
    name = "the least typer application's --help / import typer, rich"
    yield Row(name, pair.ratio, low=pair.low, high=pair.high, absolute=absolute)
