"""The examples of the README work as written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import elsewhere

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


@pytest.mark.slow
def test_the_example_scheme_is_one_new_file(tmp_path: Path) -> None:
    """The scheme is found in a user's folder on PYTHONPATH, is listed, and trains with its option."""
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/position/window.py"))
    ape = elsewhere(tmp_path, "ape_cli/position/window.py", example)
    assert "window" in ape("schemes").stdout
    assert "relative" in ape("check", "window").stdout  # every law that the scheme claims holds
    words = ("train", "--scheme", "window", "--set", "width=2", "--task", "copy", "--preset", "tiny")
    assert "copy-window-42-" in ape(*words).stdout
    assert "window (width=2)" in ape("report", "--format", "markdown").stdout


@pytest.mark.slow
def test_the_example_task_is_one_new_file(tmp_path: Path) -> None:
    (example,) = (b for b in BLOCKS if b.startswith("# ape_cli/tasks/first_last.py"))
    ape = elsewhere(tmp_path, "ape_cli/tasks/first_last.py", example)
    ape("gen", "first-last", "--length-mean", "8", "--n", "50", "--n-validation", "5", "--n-test", "5")
    row = json.loads(ape("show", "first-last", "--row", "3", "--json").stdout)
    assert row["target_ids"] == row["source_ids"][1:] + row["source_ids"][:1]
    assert "first-last-rope-42-" in ape("train", "--scheme", "rope", "--task", "first-last", "--preset", "tiny").stdout


@pytest.mark.slow
def test_the_example_logger_and_view_are_one_new_file_each(tmp_path: Path) -> None:
    (logger,) = (b for b in BLOCKS if b.startswith("# ape_cli/training/loggers/printed.py"))
    (view,) = (b for b in BLOCKS if b.startswith("# ape_cli/reports/views/steps.py"))
    elsewhere(tmp_path, "ape_cli/training/loggers/printed.py", logger)
    ape = elsewhere(tmp_path, "ape_cli/reports/views/steps.py", view)
    words = ("--set", "steps=20", "--set", "validate_every_steps=10", "--device", "cpu", "--preset", "tiny")
    lines = ape("train", "--scheme", "rope", "--task", "copy", *words, "--log", "printed").stdout.splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["10/20:", "20/20:"]
    run = lines[0].split()[0]
    assert f"| {run} | 20 |" in ape("report", "--view", "steps", "--format", "markdown").stdout
    assert f"{run} & $20$" in ape("report", "--view", "steps", "--format", "latex").stdout.replace("\\_", "_")
    assert '<h2 id="steps">Steps</h2>' in ape("report", "--format", "html").stdout
    refused = ape("report", "--view", "steps", "--interval", code=2).stderr
    assert "the view steps does not use --interval" in refused


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_stops_nothing_else(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, "ape_cli/position/torn.py", "import no_such_module\n")
    listed = ape("schemes")
    assert "rope" in listed.stdout
    assert "the file of scheme 'torn' cannot be imported" in listed.stderr
    asked = ape("check", "torn", code=1)
    assert "no_such_module" in asked.stdout
    assert "Traceback" not in asked.stderr + listed.stderr


def test_the_example_in_python_runs() -> None:
    (example,) = (b for b in BLOCKS if b.startswith("import torch"))
    names: dict[str, object] = {}
    exec(example, names)
    assert names["scores"].shape == (1, 8, 5, 5)  # type: ignore[attr-defined]


def test_the_commands_it_names_exist() -> None:
    from ape_cli import attention, position, tasks
    from ape_cli.cli import app

    commands = {c.name or c.callback.__name__ for c in app.registered_commands}
    assert set(re.findall(r"`?ape ([a-z]+)", README)) <= commands
    for head, names in (
        ("task | the target", tasks.names()),
        ("scheme | how it acts", position.names()),
        ("attention | the weight of a key", attention.names()),
    ):
        table = README[README.index(f"\n| {head} ") :].split("\n\n")[0]
        named = {name for row in table.splitlines()[3:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
        assert len(named) > 7
        assert named == set(names)
