"""Datasets of a user's own tasks: the manifest has the digest of the code, and a change of it is noticed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ape_cli
import ape_cli.dataset
import ape_cli.registry
import ape_cli.tasks
from ape_cli import tasks
from ape_cli.core import plugins
from ape_cli.core.errors import DataError, RunError, UsageError
from tests.conftest import ape

TASK = '''
from ape_cli.tasks import Tokens
from ape_cli.tasks._words import Words


class Mine(Words):
    """The word itself."""

    summary = "the word itself"

    def target(self, source):
        return Tokens(source.offsets, source.position, source.symbol)
'''
GEN = ["gen", "mine-task", "--n", "20", "--n-validation", "5", "--n-test", "5"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a task `mine-task` on the path, in an empty folder."""
    found = tmp_path / "mine" / "ape_cli" / "tasks" / "mine_task.py"
    found.parent.mkdir(parents=True)
    monkeypatch.setattr(ape_cli, "__path__", [*ape_cli.__path__, str(found.parent.parent)])
    monkeypatch.setattr(ape_cli.tasks, "__path__", [*ape_cli.tasks.__path__, str(found.parent)])
    monkeypatch.chdir(tmp_path)
    rewrite(found, TASK)
    yield found
    forget()


def rewrite(file: Path, text: str) -> None:
    """Writes the file of the task, and loads it again, as a new process does."""
    file.write_text(text)
    forget()


def forget() -> None:
    tasks.load.cache_clear()
    sys.modules.pop("ape_cli.tasks.mine_task", None)


def test_a_changed_task_is_not_taken_for_the_one_that_made_the_dataset(file: Path) -> None:
    ape(*GEN)
    (manifest,) = Path("datasets").glob("*/manifest.json")
    code = json.loads(manifest.read_text())["plan"]["code"]
    assert code == plugins.digest(tasks.load("mine-task"))
    before = manifest.read_bytes()
    assert "nothing to do" in "".join(ape(*GEN))
    rewrite(file, TASK + "\n")
    err = ape(*GEN, code=1)[1]
    assert "datasets/mine-task holds another dataset\n  got:     the code of the task mine-task has changed" in err
    assert manifest.read_bytes() == before
    ape(*GEN, "--overwrite")
    assert json.loads(manifest.read_text())["plan"]["code"] not in (None, code)


def test_training_does_not_use_a_dataset_of_other_code(file: Path) -> None:
    train = ["train", "--scheme", "none", "--task", "mine-task", "--preset", "tiny", "--set", "steps=2"]
    ape(*train)
    rewrite(file, TASK + "\n")
    for command in (train, ["sweep", "--schemes", "none", "--tasks", "mine-task", "--preset", "tiny"]):
        err = ape(*command, code=1)[1]
        assert "has changed since" in err
    (again,) = re.findall("`ape (gen .*)`", err)
    ape(*again.split())
    ape(*train, "--overwrite")
    shutil.rmtree("datasets")
    plan = ["sweep", "--schemes", "none", "--tasks", *train[4:], "--dry-run"]
    assert "1 trial, 0 to do" in "".join(ape(*plan))
    rewrite(file, TASK.replace("source.symbol)", "source.symbol * 0 + 3)"))
    assert "1 to do" in "".join(ape(*plan))


def test_rows_at_other_sizes_are_of_the_same_code(file: Path) -> None:
    ape(*GEN, "--out", "data")
    rewrite(file, TASK + "\n")
    err = ape(*TRAIN, "--generalise", "8")[1]
    assert "not evaluated at other sizes, because the code of the task mine-task has changed since" in err


def test_a_report_draws_the_rows_of_an_own_task_again(file: Path) -> None:
    """The evaluation has the digest of the code, so that rows of changed code are not taken for those evaluated."""
    train = ["train", "--scheme", "none", "--task", "mine-task", "--preset", "tiny", "--set", "steps=2"]
    ape(*train)
    (evaluation,) = (json.loads(path.read_text()) for path in Path("results").glob("runs/*/eval/*.json"))
    assert evaluation["plan"]["code"] == plugins.digest(tasks.load("mine-task"))
    report = ["report", "--by", "size", "--format", "markdown", "--notes"]
    assert "equal rows count once" in ape(*report)[0]
    rewrite(file, TASK + "\n")
    assert "which rows are equal is not known here" in ape(*report)[0]


TREES = """
from ape_cli.tasks.tree_rotate import TreeRotate


class Mine(TreeRotate):
    summary = "rotated trees"
"""
TRAIN = ["train", "--scheme", "none", "--data", "data", "--preset", "tiny", "--set", "steps=2"]
MISSING = "task 'mine-task' is not part of ape, and its file is missing here"


def lose(file: Path) -> None:
    """Removes the file of the task."""
    file.unlink()
    forget()


def test_what_needs_the_file_of_a_task_says_so_first(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy decoding of trees does: the task says how they unfold."""
    rewrite(file, TREES)
    ape(*GEN, "--out", "data")
    lose(file)
    run = json.loads(ape(*TRAIN, "--json")[0])["run"]
    ape("export", run, "--out", "out")
    model, data = ape_cli.load("out"), ape_cli.dataset.open("data")
    assert model.evaluate(data)["overall"]["rows"] == 5  # teacher forcing does not need the file
    with pytest.raises(RunError, match=MISSING):
        model.predict(data.split("test"))
    monkeypatch.setattr("ape_cli.training.trial.run_trial", lambda *given, **named: pytest.fail("it started"))
    sweep = ["sweep", "--schemes", "none", "--data", "data", "--preset", "tiny", "--seeds", "7"]
    for words in (TRAIN, sweep, ["eval", run]):
        assert MISSING in ape(*words, "--decode", "greedy", code=1)[1]


def test_a_decoded_score_of_other_code_of_the_task_is_not_stored(file: Path) -> None:
    """Teacher forcing does not use this code, so its scores are stored."""
    rewrite(file, TREES)
    ape(*GEN, "--out", "data")
    run = json.loads(ape(*TRAIN, "--decode", "greedy", "--json")[0])["run"]
    scores = {path.name: json.loads(path.read_text()) for path in Path("results/runs", run, "eval").iterdir()}
    assert [one.get("own_files", {}).keys() for _, one in sorted(scores.items())] == [{"task 'mine-task'"}, set()]
    rewrite(file, TREES + "\n")
    ape("eval", run, "--split", "validation")
    assert "is not stored" in ape("eval", run, "--split", "validation", "--decode", "greedy")[1]
    stored = sorted(path.stem.split("-", 1)[1] for path in Path("results/runs", run, "eval").iterdir())
    assert stored == ["test-greedy", "test-teacher", "validation-teacher"]


def test_runs_are_not_evaluated_on_rows_of_other_code_of_their_task(file: Path) -> None:
    ape(*GEN, "--out", "data")
    run = json.loads(ape(*TRAIN, "--json")[0])["run"]
    model = ape_cli.load(ape_cli.registry.open("results").find(run))
    ape(*GEN, "--sizes", "9-12", "--out", "same")
    rewrite(file, TASK.replace("source.symbol)", "25 - source.symbol)"))
    ape(*GEN, "--sizes", "9-12", "--out", "other")
    refused = "the task code of the dataset differs from that of the training data"
    assert refused in ape("eval", run, "--data", "other", code=1)[1]
    assert "of another task, structure or vocabulary: 1" in ape("eval", "--data", "other")[1]
    with pytest.raises(DataError, match=refused):
        model.evaluate(ape_cli.dataset.open("other"))
    ape("eval", run, "--data", "same")  # although the file has changed since


OPTIONS = """
from typing import Literal, Optional

from ape_cli.tasks.copy import Copy
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Mine(Copy):
    mode: Literal["a", "b"] = "a"
    widths: tuple[int, ...] = (1,)
    most: Optional[int] = None
    swap: bool = True
"""


def test_the_types_of_options_are_enforced_and_tuples_can_be_set(file: Path) -> None:
    rewrite(file, OPTIONS)
    made = tasks.make("mine-task", mode="b", widths=[1, 2], most=3)
    assert made.options.items() >= {"mode": "b", "widths": (1, 2), "most": 3}.items()
    gen = [*GEN, "--set", "widths=1,2", "--set", "mode=b", "--set", "swap=false", "--out", "data"]
    ape(*gen)
    assert "nothing to do" in "".join(ape(*gen))
    (command,) = re.findall("^ape (gen .*)", Path("data/README.md").read_text(), re.MULTILINE)
    assert "nothing to do" in "".join(ape(*command.split(), "--out", "data"))
    parameters = json.loads(Path("data/manifest.json").read_text())["plan"]["parameters"]
    assert parameters.items() >= {"mode": "b", "widths": [1, 2], "most": None}.items()
    for wrong, allowed in ({"mode": "c"}, "a or b"), ({"widths": "x"}, "tuple[int, ...]"), ({"most": True}, "whole"):
        with pytest.raises(UsageError, match=f"bad {next(iter(wrong))}") as caught:
            tasks.make("mine-task", **wrong)
        assert allowed in str(caught.value.allowed)


FOREIGN = """
    def draw(self, key):
        source = super().draw(key)
        source.position[:] = 2**63 - 1
        return source
"""
LAST = "        return Tokens(source.offsets, source.position, source.symbol)"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            LAST,
            "        return None",
            r"`target` of task 'mine-task' returns an unexpected value\n  got:     None \(.*mine_task.py, line 11\)",
        ),
        (LAST, "        return 1 / 0", r"'mine-task' failed\n  got:     ZeroDivisionError.*mine_task.py, line 12\)"),
        ("    def target", f"{FOREIGN}\n    def target", "a source position is not one of seq"),
    ],
)
def test_a_faulty_task_is_one_error(file: Path, old: str, new: str, message: str) -> None:
    rewrite(file, TASK.replace(old, new))
    assert re.search(message, ape(*GEN, code=1)[1], re.DOTALL)
