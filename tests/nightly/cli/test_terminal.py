"""Standard streams that are closed, full or gone, and a terminal whose size is nonsense."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


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
    app = "cli.app = lambda: sys.exit(os.open(os.devnull, os.O_RDONLY))"
    code = f"import os, sys; from ape_cli import cli; {app}; cli.main()"
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        done = shell(f'"{sys.executable}" -c "{code}" {closed}', tmp_path)
        assert done.returncode > 2, closed


def test_a_full_output(tmp_path: Path) -> None:
    for words in ("--help", "tasks --json"):
        done = shell(f"ape {words} >/dev/full", tmp_path)
        assert done.returncode == 1, words
        assert done.stderr.endswith("got:     No space left on device\n  fix:     free some space\n"), words


def test_limits_of_the_process_get_the_fix_that_helps(tmp_path: Path) -> None:
    """The size of files."""
    assert shell("ape gen copy --n 500 --out d", tmp_path).returncode == 0
    for words in ("gen copy --n 2000 --out big", "train --scheme rope --data d --preset tiny"):
        done = shell(f"ulimit -f 1; ape {words}", tmp_path)
        assert (done.returncode, "(`ulimit -f`)" in done.stderr) == (1, True), done.stderr


def test_an_output_whose_reader_has_gone(tmp_path: Path) -> None:
    for words in ("--help", "tasks --json"):
        done = shell(f"set -o pipefail; (sleep 0.2; ape {words}) | true", tmp_path)
        assert (done.returncode, done.stderr) == (1, ""), words
