"""The examples in the guides on parts of one's own: the file of each block of code is written, and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import elsewhere
from tests.test_docs import BLOCKS

EXAMPLES = {block.split()[1]: block for block in BLOCKS if block.startswith("# ape_cli/")}  # by path
WINDOW, MAP = "ape_cli/position/window.py", "ape_cli/data/position_maps/stretched.py"
LOGGER, VIEW = "ape_cli/training/loggers/printed.py", "ape_cli/reports/views/steps.py"
OUTLINE = "shopping\n  fruit\n    apples\n    pears\n  bread\n\ntravel\n  train\n"

pytestmark = pytest.mark.usefixtures("forked_workers")


def test_the_example_scheme_is_one_new_file(tmp_path: Path) -> None:
    """The scheme is found in a user's folder on PYTHONPATH, is listed, and trains with its option.

    It takes 2 seconds, because each of the four commands is a process of its own.
    """
    ape = elsewhere(tmp_path, WINDOW, EXAMPLES[WINDOW])
    assert "window" in ape("schemes").stdout
    assert "relative" in ape("check", "window", "--all").stdout  # every law that the scheme claims holds
    words = ("train", "--scheme", "window", "--set", "width=2", "--task", "copy", "--preset", "tiny")
    assert "copy-window-42-" in ape(*words).stdout
    assert "with width=2" in ape("report", "--format", "markdown").stdout


def test_the_example_map_is_one_new_file(tmp_path: Path) -> None:
    """A map in a user's folder trains with its option, and its run says whose code it is."""
    ape = elsewhere(tmp_path, MAP, EXAMPLES[MAP])
    words = ("--positions", "stretched", "--set", "most=8", "--task", "copy", "--preset", "tiny")
    assert "copy-learned-42-" in ape("train", "--scheme", "learned", *words).stdout
    assert "positions=stretched" in ape("report", "--format", "markdown").stdout
    about = json.loads(next(tmp_path.glob("results/runs/*/run.json")).read_text())
    assert list(about["own_files"]) == ["position map 'stretched'"]
    assert about["config"]["max_size"] % 8 == 0
