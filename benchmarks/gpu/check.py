"""Stage 1: what a GPU computes is what a CPU computes (`tests/test_cuda.py`), and the laws of every scheme hold."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu.clock import Clock

ROOT = Path(__file__).parents[2]


def check(out: Path, clock: Clock, workers: int, note: Callable[[str], None]) -> bool:
    """Run them as long as there is time. Writes `out`/check.json and `out`/check.txt. -> whether nothing failed"""
    out.mkdir(parents=True, exist_ok=True)
    several = ["-n", str(workers)] if workers > 1 else []
    # a machine's own versions may warn of what the pinned ones do not
    tests = ["-m", "pytest", "tests/test_cuda.py", "-m", "cuda", "-W", "default", "-p", "no:cacheprovider", *several]
    commands = {"tests": tests, "laws": ["-m", "ape_cli", "check", "orthogonal-tree"]}
    found, log = {}, []
    for name, words in commands.items():
        start = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, *words],
                cwd=ROOT,
                check=False,
                capture_output=True,
                text=True,
                timeout=max(1, clock.left),
            )
            said, status = done.stdout + done.stderr, str(done.returncode)
        except subprocess.TimeoutExpired as error:
            said, status = (error.stdout or b"").decode(errors="replace"), "out of time"
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
        found[name] = {"status": status, "seconds": round(time.monotonic() - start, 1), "last_line": last}
        log.append(f"$ python {' '.join(words)}\n{said}\n")
        note(f"{name}: {status} ({last})")
        (out / "check.json").write_text(json.dumps(found, indent=2) + "\n")
        (out / "check.txt").write_text("\n".join(log))
    return all(entry["status"] == "0" for entry in found.values())
