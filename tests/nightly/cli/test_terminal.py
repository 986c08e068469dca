"""Standard streams that are closed, full or gone, and a terminal whose size is nonsense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FULL = "error: cannot read or write\n  got:     No space left on device\n  fix:     free some space\n"
BUFFERS = ["", "1"]  # PYTHONUNBUFFERED, which torchrun and many containers set


def shell(line: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell in which `ape` is the program."""
    settings = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    line = f'ape() {{ "{sys.executable}" -m ape_cli "$@"; }}; {line}'
    return subprocess.run(["bash", "-c", line], cwd=where, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["1>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    """What would be printed there is lost; the files are written."""
    done = shell(f"ape gen copy --n 5 --out d {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == ("1>&-" not in closed)
    assert shell("ape verify --data d", tmp_path).returncode == 0


def test_closed_streams_do_not_become_files(tmp_path: Path) -> None:
    """A file that a command opens is never one of the standard streams, on which something else may be printed."""
    code = "import os, sys; from ape_cli import cli; cli._code = lambda: os.open(os.devnull, os.O_RDONLY); cli.main()"
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        done = shell(f'"{sys.executable}" -c "{code}" {closed}', tmp_path)
        assert done.returncode > 2, closed


@pytest.mark.parametrize("buffer", BUFFERS)
def test_a_full_output(tmp_path: Path, buffer: str) -> None:
    for words in ("--help", "--version", "tasks --json", "fields"):
        done = shell(f"ape {words} >/dev/full", tmp_path, PYTHONUNBUFFERED=buffer)
        assert done.returncode == 1, words
        assert done.stderr.endswith(FULL), words
        both = shell(f"ape {words} >/dev/full 2>/dev/full", tmp_path, PYTHONUNBUFFERED=buffer)
        assert (both.returncode, both.stderr) == (1, ""), words


@pytest.mark.parametrize("buffer", BUFFERS)
def test_an_output_that_does_not_fit(tmp_path: Path, buffer: str) -> None:
    """The first write is shorter than the text, without an error."""
    trained = shell("ape train --scheme rope --task copy --preset tiny --set steps=2 --device cpu", tmp_path)
    assert trained.returncode == 0, trained.stderr
    asked = shell("ape rm copy-rope <&-", tmp_path, PYTHONUNBUFFERED=buffer)
    assert (asked.returncode, "cannot ask for confirmation to remove 1 run" in asked.stderr) == (2, True)
    reports = ("report --format html", "runs --json", "show copy-tiny --json")
    for words in ("--help", "tasks", "tasks --json", "schemes", "fields --json", *reports):
        whole = shell(f"ape {words} >whole", tmp_path, PYTHONUNBUFFERED=buffer)
        blocks = (tmp_path / "whole").stat().st_size // 1024
        done = shell(f"ulimit -f {blocks}; ape {words} >out", tmp_path, PYTHONUNBUFFERED=buffer)
        assert (whole.returncode, done.returncode) == (0, 1), words
        assert "File too large\n  fix:     raise the limit" in done.stderr, words


def test_limits_of_the_process_get_the_fix_that_helps(tmp_path: Path) -> None:
    """The size of files."""
    assert shell("ape gen copy --n 500 --out d", tmp_path).returncode == 0
    for words in ("gen copy --n 2000 --out big", "train --scheme rope --data d --preset tiny", "new scheme mine"):
        done = shell(f"ulimit -f 1; ape {words}", tmp_path)
        assert (done.returncode, "(`ulimit -f`)" in done.stderr) == (1, True), done.stderr


def test_an_output_whose_reader_has_gone(tmp_path: Path) -> None:
    for words in ("--help", "tasks", "tasks --json"):
        done = shell(f"set -o pipefail; (sleep 0.2; ape {words}) | true", tmp_path)
        assert (done.returncode, done.stderr) == (1, ""), words
