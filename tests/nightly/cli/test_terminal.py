"""Standard streams that are closed, full or gone, and a terminal whose size is nonsense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FULL = "error: cannot read or write\n  got:     No space left on device\n"


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


def test_a_full_output(tmp_path: Path) -> None:
    for words in ("--help", "--version", "tasks --json"):
        done = shell(f"ape {words} >/dev/full", tmp_path)
        assert (done.returncode, done.stderr) == (1, FULL), words
        both = shell(f"ape {words} >/dev/full 2>/dev/full", tmp_path)
        assert (both.returncode, both.stderr) == (1, ""), words


def test_an_output_whose_reader_has_gone(tmp_path: Path) -> None:
    for words in ("--help", "tasks", "tasks --json"):
        done = shell(f"set -o pipefail; (sleep 0.2; ape {words}) | true", tmp_path)
        assert (done.returncode, done.stderr) == (1, ""), words
