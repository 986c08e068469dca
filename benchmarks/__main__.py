"""`python -m benchmarks [NAME …]`: run benchmarks, print a table, and store the rows in `results/MACHINE.json`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rich.box
import rich.console
import rich.table

import benchmarks
from ape_cli.core import runtime
from benchmarks._measure import Row

RESULTS = Path(__file__).parent / "results"


def names() -> list[str]:
    """The names of all benchmarks, in alphabetical order."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)
    return sorted(name for name in modules if not name.startswith("_"))


def machine() -> dict[str, Any]:
    """A description of this machine and of the versions of its libraries."""
    import numpy
    import pyarrow
    import torch

    cuda = torch.cuda.is_available()
    return {
        "kind": torch.cuda.get_device_name().replace(" ", "-").lower() if cuda else f"cpu-{os.cpu_count()}",
        "processor": runtime.processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "pyarrow": pyarrow.__version__,
    }


def run_one(name: str) -> None:
    """Run a benchmark in this process. Print each row as a line of JSON as soon as it is known."""
    for row in importlib.import_module(f"benchmarks.{name}").measure():
        print(json.dumps(asdict(row)), flush=True)


def run(name: str, console: rich.console.Console) -> list[Row]:
    """Run a benchmark in a process of its own, and print its rows as they arrive."""
    summary = importlib.import_module(f"benchmarks.{name}").SUMMARY
    console.rule(f"{name}: {summary}")
    rows = []
    command = [sys.executable, "-m", "benchmarks", "--one", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            rows.append(Row(**json.loads(line)))
            console.print(_text(rows[-1]), highlight=False, soft_wrap=True)
    if child.returncode:
        raise SystemExit(f"benchmark {name} failed with exit status {child.returncode}")
    return rows


def _text(row: Row) -> str:
    return f"{row.what}: {row.value:.3g} {_bar(row)} {_verdict(row)}"


def _bar(row: Row) -> str:
    return "" if row.bar is None else f"({'≥' if row.at_least else '≤'} {row.bar:g})"


def _verdict(row: Row) -> str:
    return {None: "", True: "met", False: "MISSED"}[row.met]


def table(kept: dict[str, list[Row]]) -> rich.table.Table:
    """The table of all rows, given by benchmark."""
    drawn = rich.table.Table("benchmark", "what", "ratio", "quartiles", "bar", "", "absolute", box=rich.box.SIMPLE_HEAD)
    for name, rows in kept.items():
        for row in rows:
            spread = "" if row.low is None or row.high is None else f"{row.low:.3g} – {row.high:.3g}"
            absolute = ", ".join(f"{key} {value:.4g}" for key, value in row.absolute.items())
            drawn.add_row(name, row.what, f"{row.value:.3g}", spread, _bar(row), _verdict(row), absolute)
    return drawn


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks to run: {', '.join(names())} (default: all)"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="JSON file for the rows (default: results/MACHINE.json)")
    given = parser.parse_args()
    if given.one:
        run_one(given.one)
        return
    if wrong := set(given.names) - set(names()):
        parser.error(f"no such benchmark: {', '.join(sorted(wrong))} (available: {', '.join(names())})")
    console, here = rich.console.Console(), machine()
    path = given.out or RESULTS / f"{here['kind']}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    kept: dict[str, Any] = before.get("benchmarks", {})
    measured = {}
    for name in given.names or names():
        measured[name] = run(name, console)
        kept[name] = {"machine": here, "rows": [asdict(row) for row in measured[name]]}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"benchmarks": dict(sorted(kept.items()))}, indent=1, ensure_ascii=False) + "\n")
    console.print(table(measured))
    console.print(f"results are in {path}", highlight=False)


if __name__ == "__main__":
    main()
