"""Kills commands and compares what they leave.

Usage: `python -m tests.nightly.kill [KILLS] [--seed N] [--case NAME]`.

In each round, a command is killed one to three times with SIGKILL, at random moments, and then repeated until it ends.
Its files must be those of a command that was never killed, without a file more. Half of the kills spare the processes
that the command has started. The moments depend on the speed of this machine, so a round cannot be repeated exactly.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.nightly.kill.cases import CASES, files, prepare, start

_PATIENCE = 90.0  # seconds in which a repeated command may find the lock of a killed process; those of workers last 60
_ALONE = 20.0  # seconds after which no process of a killed command may be left


class BrokenRoundError(Exception):
    """What a kill broke, in words."""


class Rounds:
    """The rounds of one command."""

    def __init__(self, name: str, inputs: Path, folder: Path, seed: int) -> None:
        """Runs the command once without a kill, to know its files and its duration."""
        self.name, self.case, self.inputs, self.folder = name, CASES[name], inputs, folder
        self.chosen = random.Random(f"{seed} {name}")
        at = self.place("straight")
        begin = time.monotonic()
        _finish(at, self.case.words(at))
        self.seconds = time.monotonic() - begin
        self.expected = files(at)

    def place(self, name: str) -> Path:
        """A new folder with the inputs of the command."""
        at = self.folder / f"{self.name}-{name}"
        at.mkdir()
        for needed in self.case.needs:
            shutil.copytree(self.inputs / needed, at / needed)
        return at

    def until(self, kills: int) -> Iterator[int]:
        """Makes rounds until the command was killed so many times; yields the kills of each round.

        Raises `BrokenRoundError`.
        """
        number = done = 0
        while done < kills:
            number += 1
            at = self.place(str(number))
            attempts, killed = min(self.chosen.randint(1, 3), kills - done), 0
            sessions = []
            for _ in range(attempts):
                words = [*self.case.words(at), *(self.case.again if killed else ())]
                process, was_killed = self._killed(at, words)
                sessions.append(process.pid)
                killed += was_killed
            try:
                _finish(at, self.case.words(at), self.case.again if killed else ())
                self._compare(at)
                _ended(sessions)
            except BrokenRoundError as error:
                raise BrokenRoundError(f"{at.name}: {error}") from error
            done += killed
            yield killed

    def _killed(self, at: Path, words: list[str]) -> tuple[subprocess.Popen[str], bool]:
        """Starts the command and kills it at a random moment. Returns it, and whether it was alive at that moment."""
        process = start(words, at)
        earliest = self.chosen.choice([0.0, 0.4, 0.6, 0.9])  # most moments lie after the imports
        time.sleep(self.seconds * self.chosen.uniform(earliest, 1.0))
        whole = self.chosen.random() < 0.5
        if process.poll() is None:
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        return process, process.returncode == -signal.SIGKILL

    def _compare(self, at: Path) -> None:
        """Compares the files with those of a command that was not killed. Raises `BrokenRoundError` if they differ."""
        contents = files(at)
        if contents.keys() != self.expected.keys():
            raise BrokenRoundError(f"other files: {sorted(contents.keys() ^ self.expected.keys())}")
        different = [name for name, content in contents.items() if content != self.expected[name]]
        if different:
            name = different[0]
            raise BrokenRoundError(f"other contents: {different}; {_difference(self.expected[name], contents[name])}")


def _finish(at: Path, words: list[str], again: tuple[str, ...] = ()) -> None:
    """Runs the command until it ends. Raises `BrokenRoundError` if it fails, except by the lock of a killed process."""
    begin = time.monotonic()
    while True:
        process = start([*words, *again], at)
        _, err = process.communicate()
        if process.returncode == 0 and "Traceback" not in err:
            return
        if "there is no such run to resume" in err:  # it was killed before there was one
            again = ()
        elif "another process" not in err or time.monotonic() - begin > _PATIENCE:
            raise BrokenRoundError(f"exit status {process.returncode}:\n{err}")
        time.sleep(1)


def _difference(expected: bytes, found: bytes) -> str:
    """Where two contents begin to differ, in words."""
    begin = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), 0)
    here = slice(max(0, begin - 60), begin + 60)
    return f"expected …{expected[here]!r}…, found …{found[here]!r}…"


def _ended(sessions: list[int]) -> None:
    """Waits for the processes of killed commands. Raises `BrokenRoundError` if one is left."""
    until = time.monotonic() + _ALONE
    while any(_exists(session) for session in sessions):
        if time.monotonic() > until:
            raise BrokenRoundError("a process of a killed command is still running")
        time.sleep(0.1)


def _exists(session: int) -> bool:
    """Whether a process of this session is alive."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    """Runs all rounds, prints the number of kills of each case, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.kill", description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES, help="only this command")
    options = parser.parse_args()
    names = [options.case] if options.case else list(CASES)
    shares = [options.kills // len(names) + (i < options.kills % len(names)) for i in range(len(names))]
    kills_of: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ape-kill-") as folder:
        inputs = Path(folder, "inputs")
        inputs.mkdir()
        prepare(inputs)

        def work(name: str, kills: int) -> None:
            try:
                for killed in Rounds(name, inputs, Path(folder), options.seed).until(kills):
                    kills_of[name] += killed
            except BrokenRoundError as error:
                findings.append(f"{name}: {error}")
                print(findings[-1], flush=True)

        with ThreadPoolExecutor(2) as pool:
            for job in [pool.submit(work, name, share) for name, share in zip(names, shares, strict=True)]:
                job.result()
    for name, kills in sorted(kills_of.items()):
        print(f"{name}: {kills} kills")
    print(f"{kills_of.total()} kills, {len(findings)} findings")
    return 1 if findings or kills_of.total() < options.kills else 0


if __name__ == "__main__":
    sys.exit(main())
