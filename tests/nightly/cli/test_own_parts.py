"""Mistakes in a user's own loggers, views, pictures and tasks: each is one message, wherever it is made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import tasks
from ape_cli.core.errors import left_out
from ape_cli.reports import views
from ape_cli.reports.document import read
from ape_cli.reports.views import Options
from ape_cli.runs.registry import open_registry
from ape_cli.training import loggers
from tests.conftest import ape

LOGGER = """
from ape_cli.training.loggers import MetricLogger

class Mine(MetricLogger):
    def __init__(self, run):
        self.run = run
    def log(self, step, metrics):
        pass
    def close(self):
        pass
"""
VIEW = """
from ape_cli.reports.tables import Table
from ape_cli.reports.views import View

class Mine(View):
    unused = ("metric", "decode", "split", "interval", "against")
    def read(self, registry, options):
        return registry.runs()
    def frame(self, result):
        return result.select("run", "steps")
    def tables(self, result, *, interval=False):
        rows = [("a", ["3"])]
        return [Table("Title", ["A note."], ["steps"], rows, "")]
"""
TRAIN = ["train", "--scheme", "none", "--task", "copy", "--preset", "tiny", "--set", "steps=12", "--no-eval"]
Write = Callable[..., None]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes the file of a part `mine` of a package, with some of its text replaced, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    used = set()

    def write(package: ModuleType, text: str, old: str = "", new: str = "") -> None:
        assert old in text
        folder = tmp_path / "own" / package.__name__
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.py").write_text(text.replace(old, new) if old else text + new)
        if package not in used:
            monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        used.add(package)
        sys.modules.pop(f"{package.__name__}.mine", None)
        tasks.load.cache_clear()

    yield write
    for package in used:
        sys.modules.pop(f"{package.__name__}.mine", None)
    tasks.load.cache_clear()


def test_a_run_whose_logger_fails_can_be_resumed(own: Write) -> None:
    own(loggers, LOGGER, "metrics):\n        pass", "metrics):\n        1 / 0")
    assert "`log` of logger 'mine' failed" in ape(*TRAIN, "--log", "mine", code=1)[1]
    (file,) = Path("results/runs").glob("*/run.json")
    assert json.loads(file.read_text())["status"] == "stopped"
    own(loggers, LOGGER)
    ape(*TRAIN, "--log", "mine", "--resume")
    assert json.loads(file.read_text())["status"] == "finished"


def test_a_logger_that_cannot_be_made_leaves_no_run(own: Write) -> None:
    own(loggers, LOGGER, "log(self, step, metrics)", "log(self, step)")
    assert "`log` of logger 'mine' takes the wrong arguments" in ape(*TRAIN, "--log", "mine", code=1)[1]
    assert not [*Path("results/runs").glob("*/run.json")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run with scores."""
    folder = tmp_path_factory.mktemp("trained")
    ape(*TRAIN[:-1], "--results", str(folder / "results"), "--datasets", str(folder / "datasets"))
    return folder / "results"


def test_an_own_view_that_fails_is_named_and_the_others_stay(own: Write, trained: Path) -> None:
    """Alone it is an error. On the page it is a note, and the other views are shown."""
    for old, new, message in [
        ("registry.runs()", "1 / 0", "`read` of view 'mine' failed"),
        ("return [Table", "[Table", "`tables` of view 'mine' returns an unexpected value"),
        ("(self, result, *, interval=False)", "(self, result)", "`tables` of view 'mine' takes the wrong arguments"),
    ]:
        own(views, VIEW, old, new)
        assert message in ape("report", "--results", str(trained), "--view", "mine", code=1)[1]
        with left_out() as lines:
            page = read(open_registry(trained), views.load("scores"), Options(style="html"))
        assert [line for line in lines if line.startswith(f"mine: {message}")]
        assert {part.view.name for part in page.parts} >= {"scores", "by-size"}
