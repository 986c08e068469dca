"""Standard streams that are closed, full or gone, and a terminal whose size is nonsense."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ape_cli.cli import console
from tests.conftest import ROOT, ape
from tests.nightly.limits import ape as limited
from tests.reports.test_aggregation import add

FULL = "error: cannot read or write\n  got:     No space left on device\n"


def shell(line: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell in which `ape` is the program."""
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    line = f'ape() {{ "{sys.executable}" -m ape_cli "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", line], cwd=where, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    """What would be printed there is lost; the files are written."""
    done = shell(f"ape gen copy --n 5 --out d {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == ("1>&-" not in closed)
    assert shell("ape verify --data d", tmp_path).returncode == 0


@pytest.mark.parametrize("words", ["--help", "--version", "report --views", "gen --help", "tasks", "tasks --json"])
def test_a_full_output(tmp_path: Path, words: str) -> None:
    done = shell(f"ape {words} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (1, FULL)
    both = shell(f"ape {words} >/dev/full 2>/dev/full", tmp_path)
    assert (both.returncode, both.stderr) == (1, "")


def test_an_output_whose_reader_has_gone(tmp_path: Path) -> None:
    for words in ("--help", "tasks", "tasks --json"):
        done = shell(f"set -o pipefail; (sleep 0.2; ape {words}) | true", tmp_path)
        assert (done.returncode, done.stderr) == (1, ""), words


def test_a_current_folder_that_was_removed(tmp_path: Path) -> None:
    for words in ("tasks", "--help", "gen copy --n 5 --out d"):
        done = shell(f"mkdir gone && cd gone && rmdir ../gone && ape {words}", tmp_path)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("error: there is no current folder\n  got:     No such file"), words


def test_a_name_that_is_too_long(here: Path) -> None:
    for name in ("a" * 256, "a/" * 3000):
        _, err = ape("gen", "copy", "--n", "5", "--out", name, code=1)
        assert "got:     File name too long\n" in err
        assert len(err) < 200
    assert list(here.iterdir()) == []


def test_errors_of_the_system() -> None:
    def said(error: OSError) -> str:
        return str(console.user_error(error)).replace("\n ", ";").replace("     ", " ")

    assert said(PermissionError(13, "Permission denied", "x")) == ("cannot use x; got: Permission denied")
    assert said(OSError(2, "No such file", "a\x1b[2J")) == "cannot use a\\x1b[2J; got: No such file"
    assert said(OSError("odd")) == "cannot read or write; got: odd"


def test_signals_are_handled_as_before_after_a_command(here: Path) -> None:
    """Ctrl-C while the process ends is then not a `KeyboardInterrupt`, whose traceback Python would print."""

    def handled(number: int, frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, handled)
    try:
        ape("tasks")
        assert signal.getsignal(signal.SIGINT) is handled
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)


def test_settings_of_matplotlib_that_are_nonsense(tmp_path: Path) -> None:
    results = tmp_path / "results"
    add(results, "rope", 0.5, 1)
    for words in (("--out", "y.html"), ("--plots", "p"), ("--format", "html"), ("--axis", "error", "--plots", "p")):
        found = limited("report", "--results", str(results), *words, where=tmp_path, MPLBACKEND="nonsense")
        assert found.code == 1
        assert found.err.startswith("error: plots need matplotlib, which cannot be imported\n  got:     ValueError: ")
    assert list(tmp_path.iterdir()) == [results]
