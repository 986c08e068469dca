"""The examples in the guides on parts of one's own train, and the commands of these pages run as written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import forks
from tests.conftest import elsewhere
from tests.test_docs import OWN_PARTS, PAGES, ROOT, commands_of, small
from tests.test_docs_extend import ATTENTION, EXAMPLES, FOX, LOGGER, OUTLINE, TASK, VIEW

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith(OWN_PARTS)])
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    """The examples of the page are saved where it says, in the current folder, which is on the Python path."""
    for path, example in EXAMPLES.items():
        if example in PAGES[page]:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(example)
    (tmp_path / "notes.outline").write_text("".join(OUTLINE.replace("bread", f"bread{n}") for n in range(20)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for words in commands_of(PAGES[page]):
        done = forks.run(small(words), tmp_path, environment)
        assert done.returncode == 0, (words, done.stderr)


def test_the_example_of_content_is_one_new_file(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, FOX, EXAMPLES[FOX])
    assert "11 of 11 rules and laws hold" in ape("check", "fox").stdout
    words = ("train", "--scheme", "fox", "--task", "reverse", "--preset", "tiny")
    assert "reverse-fox-42-" in ape(*words, "--model", "decoder").stdout
    assert "acts only in causal attention" in ape(*words, code=2).stderr


def test_the_example_attention_is_one_new_file(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, ATTENTION, EXAMPLES[ATTENTION])
    assert "14 of 14 rules and laws hold" in ape("check", "cosine").stdout
    words = ("train", "--scheme", "rope", "--attention", "cosine", "--task", "copy", "--preset", "tiny")
    assert "copy-rope-42-" in ape(*words).stdout


def test_the_example_task_is_one_new_file(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, TASK, EXAMPLES[TASK])
    ape("gen", "first-last", "--length-mean", "8", "--n", "50", "--n-validation", "5", "--n-test", "5")
    row = json.loads(ape("show", "first-last", "--row", "3", "--json").stdout)
    assert row["target_ids"] == row["source_ids"][1:] + row["source_ids"][:1]
    assert "first-last-rope-42-" in ape("train", "--scheme", "rope", "--task", "first-last", "--preset", "tiny").stdout


def test_the_example_logger_and_view_are_one_new_file_each(tmp_path: Path) -> None:
    elsewhere(tmp_path, LOGGER, EXAMPLES[LOGGER])
    ape = elsewhere(tmp_path, VIEW, EXAMPLES[VIEW])
    words = ("--set", "steps=20", "--set", "validate_every_steps=10", "--device", "cpu", "--preset", "tiny")
    lines = ape("train", "--scheme", "rope", "--task", "copy", *words, "--log", "printed").stdout.splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["10/20:", "20/20:"]
    run = lines[0].split()[0]
    assert f"| {run} | 20 |" in ape("report", "--view", "steps", "--format", "markdown").stdout
    assert f"{run} & $20$" in ape("report", "--view", "steps", "--format", "latex").stdout.replace("\\_", "_")
    assert '<h2 id="steps">Steps</h2>' in ape("report", "--format", "html").stdout
    refused = ape("report", "--view", "steps", "--interval", code=2).stderr
    assert "the view steps does not use `interval`" in refused
