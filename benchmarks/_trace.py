"""Which files and packages a command passes through, and how often control goes from one to another.

The command line of a checkout, `ape_cli.cli:main`, is called in a process of its own under `sys.setprofile`, after it
is imported. Calls and returns of functions in files of the package count, in the main thread only. Not counted are
`main` itself, everything that happens while a module of the package is imported, and the frames of lambdas,
comprehensions and generator expressions, which differ between versions of Python. A generator counts as called each
time it resumes.

- Files: the number of different files with a call during a part.
- Switches: the number of calls or returns that are in another file than the call or return before them.
- Entries and switches between entries: the same two figures for the packages and modules of the top level.

All runs use the dataset of tree-rotate at preset tiny, which is made beforehand and passed by --data. The parts are:

| part | from | to |
|---|---|---|
| train, for several schemes | start of `ape train` | first step of the optimiser |
| Parquet to logits, in the same runs | first reading of rows of a Parquet file | first cross-entropy |
| one run to table | start of `ape report` on a results folder with one tiny run | its end |
| results to table | `ape report` on the checkout's results, opening of the first evaluation | its end |
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

SCHEMES = ("tree", "rope", "orthogonal-tree")
_FIGURES = ("files", "switches", "entries", "switches between entries")


def traces(checkout: Path) -> dict[str, Any]:
    """The figures of each part: files and entries are lists of names, switches are numbers.

    A figure is None if its part was not reached.
    """
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = ("train", "--scheme", SCHEMES[0], "--task", "tree-rotate", "--preset", "tiny", "--device", "cpu")
        _run(
            checkout, folder, [sys.executable, "-P", "-m", "ape_cli", *first, "--results", "one", "--datasets", "data"]
        )
        (data,) = (path.parent for path in folder.glob("data/*/manifest.json"))
        for scheme in SCHEMES:
            words = ("--data", str(data), "--preset", "tiny", "--device", "cpu", "--results", "results")
            parts = _traced(checkout, folder, "train", "--scheme", scheme, *words)
            measured |= _part(f"train, scheme {scheme}", parts, "begin", "step")
            measured |= _part(f"Parquet to logits, scheme {scheme}", parts, "rows", "logits")
        report = ("report", "--format", "markdown", "--results")
        measured |= _part("one run to table", _traced(checkout, folder, *report, "one"), "begin", "end")
        if (checkout / "results" / "record").is_dir():
            parts = _traced(checkout, folder, *report, str(checkout / "results" / "record"))
            measured |= _part("results to table", parts, "evaluation", "end")
    return measured


def _run(checkout: Path, folder: Path, command: list[str]) -> None:
    """Run a command in a folder, with the code of a checkout. Raises `RuntimeError` if it fails."""
    more = {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "APE_COMMIT": "0" * 40}
    done = subprocess.run(command, cwd=folder, env=os.environ | more, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def _traced(checkout: Path, folder: Path, *words: str) -> dict[str, Any]:
    """The events and marks of a command of `ape`, as `run` writes them."""
    out = folder / "trace.json"
    out.unlink(missing_ok=True)
    _run(checkout, folder, [sys.executable, "-P", __file__, str(checkout), str(out), *words])
    kept: dict[str, Any] = json.loads(out.read_text())
    return kept


def _part(name: str, kept: dict[str, Any], start: str, stop: str) -> dict[str, Any]:
    """The figures of one part of a run, between two of its marks."""
    marks = kept["marks"]
    if start in marks and stop in marks:
        part = kept["events"][marks[start] : marks[stop]]
        entries = [(event, file.partition(os.sep)[0]) for event, file in part]
        values = [*_passed(part), *_passed(entries)]
    else:
        values = [None] * len(_FIGURES)
    return {f"{name}: {figure}": value for figure, value in zip(_FIGURES, values, strict=True)}


def _passed(events: list[tuple[str, str]]) -> tuple[list[str], int]:
    """The places with a call, sorted, and the number of events in another place than the event before them."""
    locations = sorted({location for event, location in events if event == "call"})
    return locations, sum(a[1] != b[1] for a, b in pairwise(events))


class _Stop(BaseException):
    """Raised to end the command once the traced part is over."""


class _Trace:
    """The calls and returns in the files of a package, and marks at certain events between them."""

    def __init__(self, folder: Path, main: Callable[[], object]) -> None:
        self.folder, self.main = f"{folder}{os.sep}", getattr(main, "__code__", None)
        self.events: list[tuple[str, str]] = []
        self.marks: dict[str, int] = {}
        self.importing = 0

    def mark(self, name: str) -> None:
        """Store the position of the first event with this name."""
        self.marks.setdefault(name, len(self.events))

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        """The function for `sys.setprofile`."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.folder):
            return
        if code.co_name == "<module>":
            self.importing += 1 if event == "call" else -1
        elif not self.importing and not code.co_name.startswith("<") and code is not self.main:
            self.events.append((event, code.co_filename.removeprefix(self.folder)))

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        """The hook for `sys.addaudithook`."""
        if event == "open" and isinstance(given[0], str) and re.search(r"/eval/[^/]+\.json$", given[0]):
            self.mark("evaluation")

    def watch(self, owner: Any, function: str, name: str) -> None:
        """Mark the first call of a function of another library."""
        own = getattr(owner, function)

        def marked(*given: Any, **named: Any) -> Any:
            self.mark(name)
            return own(*given, **named)

        setattr(owner, function, marked)

    def stop(self, *given: object) -> None:
        """End the command at the first step of an optimiser."""
        self.mark("step")
        sys.setprofile(None)
        raise _Stop


def run(checkout: Path, out: Path, words: list[str]) -> None:
    """Call the command line in this process under a trace, and write the events and marks to `out`."""
    import pyarrow.parquet as pq
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    from ape_cli import cli

    if not Path(cli.__file__).is_relative_to(checkout):
        raise RuntimeError(f"{cli.__file__} is not in {checkout}")
    sys.argv = ["ape", *words]
    trace = _Trace(checkout / "ape_cli", cli.main)
    register_optimizer_step_pre_hook(trace.stop)
    trace.watch(torch.nn.functional, "cross_entropy", "logits")
    for function in ("read", "read_row_group", "read_row_groups", "iter_batches"):
        trace.watch(pq.ParquetFile, function, "rows")
    sys.addaudithook(trace.audit)
    trace.mark("begin")
    sys.setprofile(trace.profile)
    try:
        cli.main()
    except _Stop:
        pass
    finally:
        sys.setprofile(None)
        trace.mark("end")
        out.write_text(json.dumps({"events": trace.events, "marks": trace.marks}))


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
