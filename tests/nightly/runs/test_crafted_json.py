"""Crafted JSON files of runs and datasets: each costs a moment, and ends with one message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core import budget
from ape_cli.data.loader import Dataset
from tests.nightly.limits import ape as limited
from tests.registered import edit
from tests.reports.test_aggregation import add

MANY = budget.JSON_VALUES // 2 - 1000  # elements such as {}, of which each may count twice

CRAFTED: dict[str, Any] = {
    "names of files": {"files": {str(i): 1 for i in range(300_000)}},
    "a long time": {"started": "x" * 2**22},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of one of two runs in `tmp_path`."""
    for scheme in ("rope", "t5"):
        add(tmp_path, scheme, 0.5)
    return min((tmp_path / "runs").iterdir())


@pytest.mark.parametrize("which", CRAFTED)
def test_a_crafted_run_json(folder: Path, tmp_path: Path, which: str) -> None:
    edit(folder / "run.json", **CRAFTED[which])
    found = limited("runs", "--json", "--results", str(tmp_path))
    assert found.code == 0
    assert f"left out: {folder.name}: " in found.err
    assert len(json.loads(found.out)) == 1
    assert len(found.text) < 10_000


def test_a_crafted_evaluation(folder: Path, tmp_path: Path) -> None:
    (path,) = (folder / "eval").iterdir()
    edit(path, by_size=[{}] * MANY)
    found = limited("report", "--format", "json", "--results", str(tmp_path))
    assert found.code == 0
    assert f"left out: {folder.name}: " in found.err


def test_a_crafted_manifest(words: Dataset, tmp_path: Path) -> None:
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    edit(folder / "manifest.json", shards={"train": [{}] * MANY})
    found = limited("verify", "--data", str(folder), where=tmp_path)
    assert found.code == 1
    assert "manifest.json is damaged" in found.text
