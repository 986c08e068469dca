"""A sweep with runs whose scheme has changed. Its trials are processes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ape_cli.data.loader import Dataset
from tests.conftest import ape
from tests.models.test_own_files import SCHEME, rewrite


def test_a_sweep_keeps_runs_of_older_code_apart(
    words: Dataset, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables tell the versions apart until they are trained again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "mine")  # for the workers
    settings = ["--data", str(words.folder), "--preset", "tiny", "--set", "steps=2"]
    sweep = ["sweep", "--schemes", "mine-own,none", "--seeds", "1,2", *settings]
    ape("train", "--scheme", "mine-own", "--seed", "1", *settings)
    rewrite(file)
    ape(*sweep)
    old, new = (hashlib.sha256(text.encode()).hexdigest()[:7] for text in (SCHEME, SCHEME + "\n"))
    rows = {line["variant"] for line in json.loads(ape("report", "--json")[0]) if line["scheme"] == "mine-own"}
    assert rows == {f"steps=2, code {old}", f"steps=2, code {new}"}
    table, said = ape("runs")
    (line,) = (line for line in table.splitlines() if "older code" in line)
    assert "reverse-mine-own-1-" in line
    (line,) = (line for line in ape(*sweep, "--dry-run")[0].splitlines() if "nothing (older code)" in line)
    assert "reverse-mine-own-1-" in line
    assert "has changed since run reverse-mine-own-1-" in said
    ape("train", "--scheme", "mine-own", "--seed", "1", *settings, "--overwrite")
    rows = {line["variant"] for line in json.loads(ape("report", "--json")[0]) if line["scheme"] == "mine-own"}
    assert rows == {"steps=2"}
