"""The options of a user's own task, in a process that has the task on its path."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl
import pytest

from tests.cli.test_gen import STUTTER
from tests.conftest import elsewhere

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def stutter(tmp_path: Path) -> Command:
    """A function that runs `ape` where the task `stutter` and a file that cannot be imported are found."""
    elsewhere(tmp_path, "ape_cli/tasks/broken.py", "raise RuntimeError('not today')\n")
    return elsewhere(tmp_path, "ape_cli/tasks/stutter.py", STUTTER)


def test_a_task_of_somebody_s_own_brings_its_options(stutter: Command, tmp_path: Path) -> None:
    shown = re.sub(r"\s+", " ", stutter("gen", "stutter", "--help").stdout)
    assert "--times TIMES How often each symbol is written. [default 2]" in shown
    assert "--spaced An option that is a flag." in shown
    words = ["--times", "3", "--length-mean", "5", "--mark", "x", "--spaced", "--ring", "0.5"]
    stutter("gen", "stutter", "--n", "20", "--out", "made", *words)
    rows = pl.read_parquet(tmp_path / "made" / "data" / "train-*.parquet")
    assert rows.height == 20
    for source, target in rows.select("source_ids", "target_ids").iter_rows():
        assert target == [symbol for symbol in source for _ in range(3)]
    assert "cannot be imported" in stutter("gen", "broken", code=1).stderr
    assert "bad times" in stutter("gen", "stutter", "--set", "times=many", code=2).stderr
