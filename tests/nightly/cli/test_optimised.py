"""`python -OO` has no docstrings and no assertions. Commands work, and refuse the same mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli import attention, position, tasks
from tests.interpreters import python

COMMANDS = "gen train sweep eval report draw tasks schemes attentions check runs rm show fields doctor verify export"
TRAIN = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "epochs=1", "--device", "cpu"]


def ape(where: Path, *words: str, code: int = 0) -> str:
    """What a command prints, with its messages."""
    done = python("-OO", "-m", "ape_cli", *words, where=where, path=[where], code=code)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [*position.names(), *attention.names()])
def test_laws_are_measured(tmp_path: Path, name: str) -> None:
    out = ape(tmp_path, "check", name)
    count = out.splitlines()[-1].split()
    assert count[:2] == [count[2], "of"], out


def test_each_task_is_generated(tmp_path: Path) -> None:
    for name in sorted(set(tasks.names()) - {"trees"}):  # which reads files
        ape(tmp_path, "gen", name, "--n", "8", "--n-validation", "2", "--n-test", "2", "--out", name)


def test_commands_run(tmp_path: Path) -> None:
    """From the data to the model card, which names a task whose description is missing."""
    for name in [*COMMANDS.split(), "push", "new"]:
        assert "Usage" in ape(tmp_path, name, "--help")
    for words in (["--help"], ["tasks", "copy"], ["schemes", "rope"], ["fields", "--scheme", "rope"], ["doctor"]):
        ape(tmp_path, *words)
    ape(tmp_path, "gen", "tree-ops", "--n", "64", "--depth-mean", "3", "--n-test", "8", "--n-validation", "8")
    ape(tmp_path, "show", "tree-ops-breadth")
    ape(tmp_path, *TRAIN, "--data", "tree-ops-breadth")
    (run,) = json.loads(python("-OO", "-m", "ape_cli", "runs", "--json", where=tmp_path).stdout)
    for words in (["eval", "--decode", "greedy"], ["report"], ["report", "--format", "html", "--out", "page.html"]):
        ape(tmp_path, *words)
    ape(tmp_path, "draw", "rope", "--out", "picture.svg")
    ape(tmp_path, "export", run["run"], "--out", "exported")
    card = (tmp_path / "exported" / "README.md").read_text()
    assert "- **Task**: tree-ops\n- **Encoding**: rope. Source: Su et al." in card


def test_a_faulty_task_is_refused(tmp_path: Path) -> None:
    """Assertions check nothing here."""
    ape(tmp_path, "new", "task", "mine")
    file = tmp_path / "ape_cli" / "tasks" / "mine.py"
    file.write_text(file.read_text().replace("source.symbol[taken])", "source.symbol[taken[:-1]])"))
    assert "`answer` returns other numbers of positions" in ape(tmp_path, "gen", "mine", "--n", "20", code=1)
