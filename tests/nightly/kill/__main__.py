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
import sys
import tempfile
import time
from pathlib import Path

from tests.nightly.kill.cases import CASES, files, prepare, start

_PATIENCE = 90.0  # seconds in which a repeated command may find the lock of a killed process; those of workers last 60


class BrokenRoundError(Exception):
    """What a kill broke, in words."""


class Rounds:
    """The rounds of one command."""

    def __init__(self, name: str, inputs: Path, folder: Path, seed: int) -> None:
        """Runs the command once without a kill, to know its files and its duration."""
        self.name, self.case, self.inputs, self.folder = name, CASES[name], inputs, folder
        self.chosen = random.Random(f"{seed} {name}")
        at = self.new_folder("straight")
        begin = time.monotonic()
        _finish(at, self.case.words(at))
        self.seconds = time.monotonic() - begin
        self.expected = files(at)

    def new_folder(self, name: str) -> Path:
        """A new folder with the inputs of the command."""
        at = self.folder / f"{self.name}-{name}"
        at.mkdir()
        for needed in self.case.needs:
            shutil.copytree(self.inputs / needed, at / needed)
        return at

    def round(self, number: int) -> int:
        """Kills the command once to three times, and repeats it. Returns the number of kills.

        Raises `BrokenRoundError` if it leaves other files than a command that was not killed.
        """
        at, kills = self.new_folder(str(number)), 0
        for _ in range(self.chosen.randint(1, 3)):
            kills += self._killed(at, [*self.case.words(at), *(self.case.again if kills else ())])
        _finish(at, self.case.words(at), self.case.again if kills else ())
        found = files(at)
        if different := [n for n in {*found, *self.expected} if found.get(n) != self.expected.get(n)]:
            raise BrokenRoundError(f"{at.name}: missing or different files: {different}")
        return kills

    def _killed(self, at: Path, words: list[str]) -> bool:
        """Starts the command and kills it at a random moment. Returns whether it was alive at that moment."""
        process = start(words, at)
        earliest = self.chosen.choice([0.0, 0.4, 0.6, 0.9])  # most moments lie after the imports
        time.sleep(self.seconds * self.chosen.uniform(earliest, 1.0))
        whole = self.chosen.random() < 0.5
        if process.poll() is None:
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL


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


def main() -> int:
    """Runs all rounds, prints the number of kills of each case, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.kill", description=__doc__)
    parser.add_argument("kills", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES, help="only this command")
    options = parser.parse_args()
    names, findings = [options.case] if options.case else list(CASES), 0
    with tempfile.TemporaryDirectory(prefix="ape-kill-") as folder:
        inputs = Path(folder, "inputs")
        inputs.mkdir()
        prepare(inputs)
        for name in names:
            kills = number = 0
            try:
                rounds = Rounds(name, inputs, Path(folder), options.seed)
                while kills < options.kills / len(names):
                    number += 1
                    kills += rounds.round(number)
            except BrokenRoundError as error:
                findings += 1
                print(f"{name}: {error}")
            print(f"{name}: {kills} kills", flush=True)
    print(f"{findings} findings")
    return min(findings, 1)


if __name__ == "__main__":
    sys.exit(main())
