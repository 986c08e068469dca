"""The files that `ape new` writes work at once: processes of their own test them, train and report."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from tests import forks
from tests.cli.test_new import ROOT
from tests.conftest import ape
from tests.interpreters import python


def run(where: Path, line: str) -> str:
    """Runs one of the commands that `ape new` prints, in a user's folder, and returns its output. It must succeed."""
    path, *words = shlex.split(line)
    name, folder = path.split("=")
    assert name == "PYTHONPATH"
    environment = os.environ | {name: os.pathsep.join([folder, str(ROOT)])}
    if words[0] == "ape":
        done = forks.run(words[1:], where, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return python(*words[1:], where=where, path=[folder]).stdout


def test_a_new_scheme_works_at_once(here: Path) -> None:
    out, err = ape("new", "scheme", "soft-window")
    written = ["ape_cli/position/soft_window.py", "tests/test_soft_window.py"]
    assert (out.splitlines()[:3], err) == ([*(f"written: {path}" for path in written), "next:"], "")
    lines = [line.strip() for line in out.splitlines()[3:]]
    printed = [run(here, line.replace("steps=400", "steps=10")) for line in lines]
    assert "5 passed" in printed[0]
    assert "12 of 12 rules and laws hold" in printed[1]
    assert "2 trained now" in printed[2]
    assert "soft-window" in run(here, "PYTHONPATH=. ape schemes")


def test_a_new_scheme_of_content_works_at_once(here: Path) -> None:
    found = json.loads(ape("new", "scheme", "way-cost", "--content", "--json")[0])
    printed = [run(here, line.replace("steps=400", "steps=10")) for line in found["next"]]
    assert "6 passed" in printed[0]
    assert "11 of 11 rules and laws hold" in printed[1]
    assert "2 trained now" in printed[2]
    assert "way-cost" in run(here, "PYTHONPATH=. ape schemes")


def test_a_new_kind_of_attention_works_at_once(here: Path) -> None:
    found = json.loads(ape("new", "attention", "cosine", "--json")[0])
    assert found["written"] == ["ape_cli/attention/cosine.py", "tests/test_cosine.py"]
    printed = [run(here, line) for line in found["next"]]
    assert "6 passed" in printed[0]
    assert "14 of 14 rules and laws hold" in printed[1]
    assert "copy-rope-42-" in printed[2]
    assert "cosine" in run(here, "PYTHONPATH=. ape attentions")


def test_a_new_task_works_at_once(here: Path) -> None:
    """The task is written to another folder, whose name contains a space."""
    found = json.loads(ape("new", "task", "turn_word", "--to", "my own", "--json")[0])
    assert found["name"] == "turn-word"
    assert found["written"] == ["my own/ape_cli/tasks/turn_word.py", "my own/tests/test_turn_word.py"]
    assert "8 passed" in run(here, found["next"][0])
    assert "turn-word" in run(here, "PYTHONPATH='my own' ape tasks")
    run(here, "PYTHONPATH='my own' ape gen turn-word --n 20 --shift 2")
    row = json.loads(ape("show", "turn-word", "--row", "7", "--json")[0])
    assert row["target_ids"] == row["source_ids"][2:] + row["source_ids"][:2]
    assert "turn-word-rope-42-" in run(here, found["next"][2])
