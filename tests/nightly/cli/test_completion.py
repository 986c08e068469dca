"""Completion in a real shell, with the script that `ape --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ape_cli import position

SCRIPT = """
eval "$(_APE_COMPLETE=source_bash ape)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_ape_completion ape
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "proposed"),
    [
        (["ape", "train", "--scheme", ""], position.names()),
        (["ape", "train", "--preset", "="], ["paper", "neurips", "medium", "small", "tiny"]),  # bash separates the =
        (["ape", "rm", ""], ["copy-rope-1-0a"]),
        (["ape", "swe"], ["sweep"]),
    ],
)
def test_bash(here: Path, words: list[str], proposed: list[str]) -> None:
    file = here / "results/runs/copy-rope-1-0a/run.json"
    file.parent.mkdir(parents=True)
    file.touch()
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    run = ["bash", "--norc", "-c", SCRIPT, "bash", *words]
    done = subprocess.run(run, cwd=here, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (proposed, "")
