"""Run the stages with `python -m benchmarks.gpu [STAGE]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ape_cli.core.errors import ApeError
from benchmarks.gpu.cells import Pace, schedule_within
from benchmarks.gpu.check import check
from benchmarks.gpu.clock import Clock
from benchmarks.gpu.record import Setting, describe, record
from benchmarks.gpu.steps import steps

ROOT = Path(__file__).parents[2]
AT_MOST = {"check": 4 * 60.0, "steps": 5 * 60.0}  # seconds


def main(words: list[str]) -> int:
    """Run the command line. -> the exit status"""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "stage", nargs="?", choices=["check", "steps", "record"], help="default: check, steps and record"
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="time limit of the call (default 9)")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-out"), help="folder for the results to bring back (default: gpu-out)"
    )
    parser.add_argument("--work", type=Path, help="folder for datasets and weights (default: OUT/work)")
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "results" / "record",
        help="runs that record does not repeat (default: those of record)",
    )
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="device of all stages (default: cuda)"
    )
    parser.add_argument("--preset", help="preset of the runs (default: that of each sweep; steps measures paper)")
    parser.add_argument("--precision", help="precision of the runs of record (default: tf32 on CUDA, fp32 on a CPU)")
    parser.add_argument(
        "--workers", type=int, help="number of runs at a time (default: the best number in the results of steps)"
    )
    parser.add_argument(
        "--then", type=float, default=0.0, help="minutes of a later call that resumes runs, for record (default 0)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and train nothing, for record")
    given = parser.parse_args(words)
    if given.minutes <= 0 or (given.workers is not None and given.workers < 1):
        parser.error("--minutes and --workers must be above 0")
    if given.stage != "record" and (given.dry_run or given.then):
        parser.error("only record takes --dry-run and --then")
    if given.stage not in (None, "record") and (given.workers is not None or given.precision is not None):
        parser.error("only record, or a call of all stages, takes --workers and --precision")
    try:
        return _run(given)
    except ApeError as error:
        print(error, file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    """Run the stages. -> the exit status"""
    import torch

    if given.device == "cuda" and not given.dry_run and not torch.cuda.is_available():
        print("no CUDA device is available; use --device cpu --preset tiny to run all stages on a CPU", file=sys.stderr)
        return 1
    clock, begun = Clock(given.minutes * 60), time.monotonic()

    def note(line: str) -> None:
        print(f"[{time.monotonic() - begun:6.1f}] {line}", flush=True)

    out, good = given.out.resolve(), True
    work = (given.work or out / "work").resolve()
    for stage in [given.stage] if given.stage else ["check", "steps", "record"]:
        # several stages: a third of the time for each; later stages get the time that is left over
        share = clock if given.stage or stage == "record" else clock.part(min(AT_MOST[stage], clock.seconds / 3))
        if stage == "check":
            good = check(out, share, 6 if given.device == "cuda" else 1, note)
        elif stage == "steps":
            steps(given.preset or "paper", given.device, out, work, share, note)
        else:
            _record(given, out, work, share, note)
    return 0 if good else 1


def _record(given: argparse.Namespace, out: Path, work: Path, clock: Clock, note: Callable[[str], None]) -> None:
    """Run the stage `record`, or print its plan."""
    measured = next((p for p in (out / "steps.json", *_committed()) if p.exists()), None)
    pace, best = _pace(measured)
    precision = given.precision or ("tf32" if given.device == "cuda" else "fp32")
    workers, then = given.workers or best, given.then * 60
    setting = Setting(
        preset=given.preset,
        precision=precision,
        device=given.device,
        workers=workers,
        out=out,
        work=work,
        recorded=given.results,
        then=then,
    )
    if given.dry_run:
        planned, left = schedule_within(setting.waiting(), clock.left + setting.then, setting.workers, pace)
        describe(planned, left, setting, pace, note)
    else:
        record(setting, clock, pace, note)


def _committed() -> list[Path]:
    """The committed results of `steps` on GPUs."""
    return sorted((ROOT / "benchmarks" / "results").glob("h[0-9]*.json"))


def _pace(measured: Path | None) -> tuple[Pace, int]:
    """The pace and the best number of runs at a time, from the results of `steps`.

    The pace is a line through the step times of two tasks, and a factor for each scheme.
    """
    rows = json.loads(measured.read_text()).get("rows", {}).values() if measured else []
    alone = {(r["scheme"], r["task"]): r["ms"] for r in rows if r["mode"] == "recorded" and r["together"] == 1}
    if measured is None or ("none", "reverse") not in alone or ("none", "tree-rotate") not in alone:
        return Pace(), 2
    words, trees = alone["none", "reverse"], alone["none", "tree-rotate"]
    token = (words - trees) / (100 - 53.5)  # difference of the mean tokens of a row
    pace = Pace(
        step_ms=max(0.0, trees - 53.5 * token),
        token_ms=token,
        relative=tuple((scheme, ms / alone["none", task]) for (scheme, task), ms in alone.items()),
        measured=str(measured),
    )
    rope = [r for r in rows if (r["scheme"], r["task"], r["mode"]) == ("rope", "tree-rotate", "recorded")]
    several = {r["together"]: r["ms"] for r in rope}
    # at least two, because a second run uses the gaps between the steps of the first one
    best = min((n for n in several if n > 1), key=several.__getitem__, default=2)
    return pace, best


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
