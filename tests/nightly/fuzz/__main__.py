"""Mutates files of every kind and checks what users see.

Usage: `python -m tests.nightly.fuzz [MUTATIONS] [--seed N] [--case NAME]`.

Each mutation is a function of the seed, the case and its number, so a finding can be repeated. Mutations run in two
processes. A mutation may take 20 seconds and 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.nightly.fuzz import cases, exports, mutations, trees
from tests.nightly.fuzz.cases import BrokenRule, Case
from tests.nightly.limits import MOST_BYTES, MOST_SECONDS, peak_of_this

CASES = cases.CASES | exports.CASES | trees.CASES


def mutate(case: Case, name: str, seed: int, number: int) -> str:
    """Makes one mutation and returns its outcome. The files are as before afterwards.

    Raises `BrokenRule` with a description if the outcome is not allowed.
    """
    chosen = random.Random(f"{seed} {name} {number}")
    path = chosen.choice(case.files())
    before = path.read_bytes()
    kinds = ["bytes", "json", "sealed", "unsealed"] if case.json else ["bytes"]
    kind = chosen.choice(kinds + ["text"] * 3 * bool(case.words))
    made = mutations.of_bytes(before, chosen)
    if kind == "text":
        made = mutations.of_text(before, chosen, case.words)
    elif kind != "bytes":
        made = mutations.of_json(before, chosen, kind)
    if made == before:
        return "same"
    start = time.perf_counter()

    def late(signum: int, frame: Any) -> None:
        raise BrokenRule(f"not finished after {MOST_SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_SECONDS)
    try:
        path.write_bytes(made)
        found = case.outcome(path.name, sealed=kind == "sealed")
        more = peak_of_this() - case.memory
        if more > MOST_BYTES:
            case.memory += more  # it does not count for the next mutation
            raise BrokenRule(f"{more / 2**20:.0f} MiB more memory than before all mutations")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        told = error.__cause__ or error
        last = "".join(traceback.format_exception(told)[-3:])
        where = f"{name}, mutation {number}, seed {seed}: {kind} of {path.name}"
        raise BrokenRule(f"{where}\n{error}\n{last}") from error
    finally:
        signal.alarm(0)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before)
    return f"{found}, {time.perf_counter() - start:.1f} s" if time.perf_counter() - start > 5 else found


def work(name: str, seed: int, numbers: range) -> tuple[Counter[str], list[str]]:
    """Makes the mutations of one case. Returns the number of each outcome, and a text about each finding."""
    outcomes: Counter[str] = Counter()
    found = []
    with tempfile.TemporaryDirectory(prefix="ape-fuzz-") as folder:
        case = CASES[name](Path(folder))
        for number in numbers:
            try:
                outcomes[mutate(case, name, seed, number)] += 1
            except BrokenRule as error:
                found.append(str(error))
                case.reset()
    return outcomes, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutations", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.case or list(CASES)
    if given.first is not None:  # one of the processes
        signal.alarm(0)
        outcomes, found = work(names[0], given.seed, range(given.first, given.first + given.mutations))
        print(json.dumps([outcomes, found]))
        return
    total, findings, each = Counter[str](), list[str](), -(-given.mutations // len(names))
    for name in names:
        halves = [range(each // 2), range(each // 2, each)]
        begun = time.perf_counter()
        command = [sys.executable, "-m", "tests.nightly.fuzz", "--seed", str(given.seed), "--case", name]
        started = [
            subprocess.Popen([*command, str(len(half)), "--first", str(half.start)], stdout=subprocess.PIPE, text=True)
            for half in halves
            if half
        ]
        outcomes = Counter[str]()
        for process in started:
            out, _ = process.communicate()
            if process.returncode:
                findings.append(f"{name}: a process ended with status {process.returncode}")
                continue
            counts, found = json.loads(out.splitlines()[-1])
            outcomes.update(counts)
            findings += found
        total.update(outcomes)
        shown = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{name}: {shown} ({time.perf_counter() - begun:.0f} s)", flush=True)
    for finding in findings:
        print(f"\nFINDING: {finding}")
    print(f"\n{total.total():,} mutations allowed, {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
