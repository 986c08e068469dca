"""`python -OO` has no docstrings and no assertions. Commands work, and refuse the same mistakes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interpreters import python

TRAIN = ["train", "--scheme", "rope", "--preset", "tiny", "--set", "epochs=1", "--device", "cpu"]
EACH = """
from ape_cli import attention, position, tasks
from ape_cli.data import position_maps
from ape_cli.evaluation.laws._subjects import examples
for name in tasks.names():
    if name not in ("trees", "images"):
        if tasks.make(name).sample(rows=range(4), split="test", seed=1).num_rows != 4:
            raise SystemExit(name)
for name in position.names():
    position.make(name, 24, 2, max_size=3, structure=examples(name)[0]).properties
for package in (attention, position_maps):
    for name in package.names():
        package.make(name)
"""


def ape(where: Path, *words: str, code: int = 0) -> str:
    """What a command prints, with its messages."""
    done = python("-OO", "-m", "ape_cli", *words, where=where, path=[where], code=code)
    return done.stdout + done.stderr


def test_laws_are_measured(tmp_path: Path) -> None:
    out = python("-OO", "-m", "ape_cli", "check", "rope", "orthogonal-tree", "linear", where=tmp_path).stdout
    held, _, count = out.splitlines()[-1].split()[:3]
    assert held == count
    assert int(count) > 50


def test_each_task_and_part_is_made(tmp_path: Path) -> None:
    """Those that need no files of a user."""
    python("-OO", "-c", EACH, where=tmp_path)


def test_commands_run(tmp_path: Path) -> None:
    """From the data to the model card, which names a task whose description is missing."""
    for words in (
        ["--help"],
        ["gen", "--help"],
        ["tasks", "copy"],
        ["schemes", "rope"],
        ["fields", "--scheme", "rope"],
        ["doctor"],
    ):
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
    assert "`target` of task 'mine' returns something else" in ape(tmp_path, "gen", "mine", "--n", "20", code=1)
