"""The examples in the guides on parts of one's own train, and the commands of these pages run as written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forks
from tests.conftest import elsewhere
from tests.test_docs import OWN_PARTS, PAGES, ROOT, commands_of, small
from tests.test_docs_extend import EXAMPLES, LOGGER, OUTLINE, VIEW

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
    assert "the view steps does not use `--interval`" in refused
