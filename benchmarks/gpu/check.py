"""Stage 1: check that a GPU computes what a CPU computes (`tests/test_cuda.py`), and the laws of orthogonal-tree."""

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
    """Run the checks while there is time. -> whether none failed

    The output of each is written to `out`/check-NAME.txt while it runs, and the results to `out`/check.json.
    """
    out.mkdir(parents=True, exist_ok=True)
    tests = ["-m", "pytest", "tests/test_cuda.py", "-v", "-m", "cuda", "-p", "no:cacheprovider"]
    tests += ["-W", "default"]  # other versions than the pinned ones may give other warnings
    tests += ["-n", str(workers)] if workers > 1 else []
    commands = {"tests": tests, "laws": ["-m", "ape_cli", "check", "orthogonal-tree"]}
    results = {}
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
        results[name] = {"status": status, "seconds": round(time.monotonic() - start, 1), "last_line": last}
        note(f"{name}: {status} ({last})")
        files.write_json(out / "check.json", results)
    return all(entry["status"] == "0" for entry in results.values())
