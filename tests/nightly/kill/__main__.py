"""Kills commands and compares what they leave.

Usage: `python -m tests.nightly.kill [KILLS] [--seed N] [--case NAME] [--store NAME]`.

In each round, a command is killed one to three times with SIGKILL, at random moments, and then repeated until it ends.
Its files must be those of a command that was never killed, without a file more. Half of the kills spare the processes
that the command has started. The moments depend on the speed of this machine, so a round cannot be repeated exactly.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from tests.nightly.kill.cases import BUCKET, CASES, Place, prepare, start
from tests.nightly.store import Server, serving

_PATIENCE = 90.0  # seconds in which a repeated command may find the lock of a killed process; those of workers last 60
_ALONE = 20.0  # seconds after which no process of a killed command may be left


class BrokenRoundError(Exception):
    """What a kill broke, in words."""


class Rounds:
    """The rounds of one command at one kind of store."""

    def __init__(self, name: str, inputs: Path, folder: Path, server: Server | None, seed: int) -> None:
        """Runs the command once without a kill, to know its files and its duration."""
        self.name, self.case, self.inputs, self.folder, self.server = name, CASES[name], inputs, folder, server
        self.chosen = random.Random(f"{seed} {name} {server is None}")
        at = self.place("straight")
        begin = time.monotonic()
        _finish(at, self.case.words(at))
        self.seconds = time.monotonic() - begin
        self.expected = at.files()

    def place(self, name: str) -> Place:
        """A new place with the inputs of the command."""
        own = f"{self.name}-{'folder' if self.server is None else 's3'}-{name}"
        (self.folder / own).mkdir()
        at = Place(own, self.folder / own, self.server)
        for needed in self.case.needs:
            (at / needed).fill(self.inputs / needed)
        return at

    def until(self, kills: int) -> Iterator[int]:
        """Makes rounds until the command was killed so many times; yields the kills of each round.

        Raises `BrokenRoundError`.
        """
        number = done = 0
        while done < kills:
            number += 1
            at = self.place(str(number))
            wanted, killed = min(self.chosen.randint(1, 3), kills - done), 0
            sessions = []
            for _ in range(wanted):
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

    def _killed(self, at: Place, words: list[str]) -> tuple[subprocess.Popen[str], bool]:
        """Starts the command and kills it at a random moment. Returns it, and whether it was alive at that moment."""
        process = start(words, at.folder)
        earliest = self.chosen.choice([0.0, 0.4, 0.6, 0.9])  # most moments lie after the imports
        time.sleep(self.seconds * self.chosen.uniform(earliest, 1.0))
        whole = self.chosen.random() < 0.5
        if process.poll() is None:
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        return process, process.returncode == -signal.SIGKILL

    def _compare(self, at: Place) -> None:
        """Compares the files with those of a command that was not killed. Raises `BrokenRoundError` if they differ."""
        found = at.files()
        if self.server is None:
            found = {name: content for name, content in found.items() if not name.startswith("tmp/")}
        expected = {name: content for name, content in self.expected.items() if not name.startswith("tmp/")}
        if found.keys() != expected.keys():
            raise BrokenRoundError(f"other files: {sorted(found.keys() ^ expected.keys())}")
        different = [name for name, content in found.items() if content != expected[name]]
        if different:
            name = different[0]
            raise BrokenRoundError(f"other contents: {different}; {_difference(expected[name], found[name])}")


def _finish(at: Place, words: list[str], again: tuple[str, ...] = ()) -> None:
    """Runs the command until it ends. Raises `BrokenRoundError` if it fails, except by the lock of a killed process."""
    begin = time.monotonic()
    while True:
        process = start([*words, *again], at.folder)
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
    parser.add_argument("--store", choices=["folder", "s3"], help="only this kind of store")
    asked = parser.parse_args()
    names = [asked.case] if asked.case else list(CASES)
    stores = [asked.store] if asked.store else ["folder", "s3"]
    pairs = [(name, store) for name in names for store in stores]
    shares = [asked.kills // len(pairs) + (i < asked.kills % len(pairs)) for i in range(len(pairs))]
    counted: Counter[tuple[str, str]] = Counter()
    found: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="ape-kill-") as folder,
        serving() if "s3" in stores else nullcontext() as server,
    ):
        if server is not None:
            server.bucket(BUCKET)
        inputs = Path(folder, "inputs")
        inputs.mkdir()
        prepare(inputs)

        def work(name: str, store: str, kills: int) -> None:
            try:
                rounds = Rounds(name, inputs, Path(folder), server if store == "s3" else None, asked.seed)
                for killed in rounds.until(kills):
                    counted[name, store] += killed
            except BrokenRoundError as error:
                found.append(f"{name}, {store}: {error}")
                print(found[-1], flush=True)

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(work, *pair, share) for pair, share in zip(pairs, shares, strict=True)]:
                done.result()
    for (name, store), kills in sorted(counted.items()):
        print(f"{name}, {store}: {kills} kills")
    print(f"{sum(counted.values())} kills, {len(found)} findings")
    return 1 if found or sum(counted.values()) < asked.kills else 0


if __name__ == "__main__":
    sys.exit(main())
