"""Crafted JSON files of runs and datasets: each costs a moment, and ends with one message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core import budget
from ape_cli.core.errors import DataError, RunError
from ape_cli.data import manifest
from ape_cli.data.loader import Dataset
from ape_cli.runs.run import Run
from ape_cli.storage import digests
from tests.conftest import ape
from tests.nightly.limits import ape as limited
from tests.registered import edit, rename, vouch
from tests.reports.test_aggregation import add

MANY = budget.JSON_VALUES // 2 - 1000  # elements such as {}, of which each may count twice

CRAFTED: dict[str, Any] = {
    "a field that nobody reads": {"x": [{}] * MANY},
    "more values than there may be": {"x": [1] * (budget.JSON_VALUES + 1)},
    "names of files": {"files": {str(i): 1 for i in range(300_000)}},
    "processors": {"resumed_on": [1] * MANY},
    "a nested setting": {"variant": {"a": [{}] * MANY}},
    "a long setting": {"variant": {"a": "x" * 2**22}},
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


@pytest.mark.parametrize("name", ["by_size", "by_op", "by_class", "x"])
def test_a_crafted_evaluation(folder: Path, tmp_path: Path, name: str) -> None:
    (path,) = (folder / "eval").iterdir()
    edit(path, **{name: [{}] * MANY})
    found = limited("report", "--format", "json", "--results", str(tmp_path))
    assert found.code == 0
    assert f"left out: {folder.name}: " in found.err


@pytest.mark.parametrize("name", ["shards", "vocabulary", "versions", "x"])
def test_a_crafted_manifest(words: Dataset, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    value: Any = {"train": [{}] * MANY} if name == "shards" else [1] * MANY
    edit(folder / "manifest.json", **{name: {str(i): 1 for i in range(300_000)} if name == "versions" else value})
    found = limited("verify", "--data", str(folder), where=tmp_path)
    assert found.code == 1
    assert "manifest.json is damaged" in found.text


def infinite(path: Path, old: str, new: str) -> None:
    """Replaces text where it occurs last in a JSON file, and renews its digest if it has one.

    JSON has no infinity, but `1e999` is read as one.
    """
    value = json.loads(path.read_text())
    text = json.dumps({k: v for k, v in value.items() if k != digests.FIELD}, indent=2)
    before, found, after = text.rpartition(old)
    assert found
    changed = before + new + after
    path.write_text(digests.sealed(changed) if digests.FIELD in value else changed)


def test_numbers_that_are_read_as_infinite(folder: Path, tmp_path: Path, words: Dataset) -> None:
    edit(folder / "run.json", lambda about: about["config"].update(decay=0.123))
    folder = rename(folder)
    (path,) = (folder / "eval").iterdir()
    for file, old in ((folder / "run.json", '"seconds": 1.0'), (folder / "run.json", '"decay": 0.123')):
        before = file.read_text()
        infinite(file, old, f"{old.partition(':')[0]}: 1e999")
        with pytest.raises(RunError, match="finite"):
            Run(folder).read()
        assert f"left out: {folder.name}" in ape("runs", "--json", "--results", str(tmp_path))[1]
        file.write_text(before)
    edit(path, lambda found: [part.update(cross_entropy=0.123) for part in (found["overall"], *found["by_size"])])
    infinite(path, '"cross_entropy": 0.123', '"cross_entropy": 1e999')
    vouch(folder)
    out, err = ape("report", "--format", "json", "--results", str(tmp_path))
    assert "finite number" in err
    assert len(json.loads(out)) == 1
    data = shutil.copytree(str(words.folder), tmp_path / "d")
    infinite(data / "manifest.json", '"length_std": ', '"length_std": 1e999, "x": ')
    with pytest.raises(DataError, match=r"plan.parameters: a number that is not finite"):
        manifest.read_manifest(data)


def test_a_manifest_with_a_fourth_split(words: Dataset, tmp_path: Path) -> None:
    folder = shutil.copytree(str(words.folder), tmp_path / "d")
    edit(folder / "manifest.json", lambda found: found["shards"].update(extra=[]))
    with pytest.raises(DataError, match="the shards are not those of the plan"):
        manifest.read_manifest(folder)
