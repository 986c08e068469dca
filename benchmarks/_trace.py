"""Which files of a package a run passes through, and how often control goes from one file to another.

A run is the command line of a checkout, `ape_cli.cli:main`, called in a process of its own under `sys.setprofile`; it
is imported before. Calls and returns of functions in files of the package count, in the main thread alone. Not counted
are `main` itself, what is done while a module of the package is imported, and the frames of lambdas, comprehensions
and generator expressions, as these come and go with versions of Python. A generator is called each time it goes on.

- Files: different ones with a call between the two ends of a part.
- Switches: of two consecutive calls or returns, the second is in another file than the first.

All runs have the tiny preset's dataset of tree-rotate, which is made beforehand and named by --data. The parts:

- train, of several schemes: `ape train` to the first step of the optimiser.
- Parquet to logits: of the same runs, from the first reading of rows of a Parquet file to the first cross-entropy.
- one run to table: `ape report` on a folder of results with one tiny run, from beginning to end.
- results to table: `ape report` on the results of the checkout, from the opening of the first evaluation to the end.
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


def traces(checkout: Path) -> dict[str, Any]:
    """The files (a list) and the switches (a number) of each part; None where a part was not met."""
    found: dict[str, Any] = {}
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
            found |= _part(f"train, scheme {scheme}", parts, "begin", "step")
            found |= _part(f"Parquet to logits, scheme {scheme}", parts, "rows", "logits")
        report = ("report", "--format", "markdown", "--results")
        found |= _part("one run to table", _traced(checkout, folder, *report, "one"), "begin", "end")
        if (checkout / "results" / "runs").is_dir():
            parts = _traced(checkout, folder, *report, str(checkout / "results"))
            found |= _part("results to table", parts, "evaluation", "end")
    return found


def _run(checkout: Path, folder: Path, command: list[str]) -> None:
    """Run a command in a folder, with the code of a checkout; a failure is an error with what it said."""
    more = {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "APE_COMMIT": "0" * 40}
    done = subprocess.run(command, cwd=folder, env=os.environ | more, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")


def _traced(checkout: Path, folder: Path, *words: str) -> dict[str, Any]:
    """What `_Trace.kept` has of a command of `ape`."""
    out = folder / "trace.json"
    out.unlink(missing_ok=True)
    _run(checkout, folder, [sys.executable, "-P", __file__, str(checkout), str(out), *words])
    kept: dict[str, Any] = json.loads(out.read_text())
    return kept


def _part(name: str, kept: dict[str, Any], start: str, stop: str) -> dict[str, Any]:
    """The figures of one part of a run, between two of its marks."""
    marks, events = kept["marks"], kept["events"]
    if start not in marks or stop not in marks:
        return {f"{name}: files": None, f"{name}: switches": None}
    part = events[marks[start] : marks[stop]]
    files = sorted({file for kind, file in part if kind == "call"})
    return {f"{name}: files": files, f"{name}: switches": sum(a[1] != b[1] for a, b in pairwise(part))}


class _Stop(BaseException):
    """The part that is traced is over."""


class _Trace:
    """The calls and returns in the files of a package, and what was met between them."""

    def __init__(self, folder: Path, main: Callable[[], object]) -> None:
        self.folder, self.main = f"{folder}{os.sep}", getattr(main, "__code__", None)
        self.events: list[tuple[str, str]] = []
        self.marks: dict[str, int] = {}
        self.importing = 0

    def mark(self, name: str) -> None:
        """Note where something is met first."""
        self.marks.setdefault(name, len(self.events))

    def profile(self, frame: FrameType, event: str, arg: object) -> None:
        """What `sys.setprofile` is given."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.folder):
            return
        if code.co_name == "<module>":
            self.importing += 1 if event == "call" else -1
        elif not self.importing and not code.co_name.startswith("<") and code is not self.main:
            self.events.append((event, code.co_filename.removeprefix(self.folder)))

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        """What `sys.addaudithook` is given."""
        if event == "open" and isinstance(given[0], str) and re.search(r"/eval/[^/]+\.json$", given[0]):
            self.mark("evaluation")

    def watch(self, owner: Any, function: str, name: str) -> None:
        """Mark the calls of a function of another library."""
        own = getattr(owner, function)

        def marked(*given: Any, **named: Any) -> Any:
            self.mark(name)
            return own(*given, **named)

        setattr(owner, function, marked)

    def stop(self, *given: object) -> None:
        """End the run, at the first step of an optimiser."""
        self.mark("step")
        sys.setprofile(None)
        raise _Stop


def run(checkout: Path, out: Path, words: list[str]) -> None:
    """In the process that is traced: call the command line with some words, and write down what was met."""
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
