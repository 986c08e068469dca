"""Stage 1: what a GPU computes is what a CPU computes (`tests/test_cuda.py`), and the laws of every scheme hold."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ape_cli.storage import files
from benchmarks.gpu.clock import Clock

ROOT = Path(__file__).parents[2]


def check(out: Path, clock: Clock, workers: int, note: Callable[[str], None]) -> bool:
    """Run them as long as there is time. -> whether nothing failed

    Writes what each of them prints into `out`/check-NAME.txt while it runs, and how they ended into `out`/check.json.
    """
    out.mkdir(parents=True, exist_ok=True)
    tests = ["-m", "pytest", "tests/test_cuda.py", "-v", "-m", "cuda", "-p", "no:cacheprovider"]
    tests += ["-W", "default"]  # a machine's own versions may warn of what the pinned ones do not
    tests += ["-n", str(workers)] if workers > 1 else []
    commands = {"tests": tests, "laws": ["-m", "ape_cli", "check", "orthogonal-tree"]}
    found = {}
    for name, words in commands.items():
        start, log = time.monotonic(), out / f"check-{name}.txt"
        with log.open("w", encoding="utf-8") as file:
            try:
                ended = subprocess.run(
                    [sys.executable, *words],
                    cwd=ROOT,
                    check=False,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=max(1, clock.left),
                )
                status = str(ended.returncode)
            except subprocess.TimeoutExpired:
                status = "out of time"
        said = log.read_text(encoding="utf-8", errors="replace")
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        found[name] = {"status": status, "seconds": round(time.monotonic() - start, 1), "last_line": last}
        note(f"{name}: {status} ({last})")
        files.write_json(out / "check.json", found)
    return all(entry["status"] == "0" for entry in found.values())
