"""Trackio: every metric of a run is in its database. It reads its settings when it is imported, so processes run it."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ape_cli.runs.registry import open_registry
from tests.conftest import elsewhere

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("trackio") is None, reason="the extra `trackio` is not installed"
)
SIZES = ("--preset", "tiny", "--device", "cpu", "--set", "steps=20", "--set", "validate_every_steps=5")


@pytest.fixture(autouse=True)
def _local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))


def rows(path: Path, columns: str, table: str) -> list[tuple[Any, ...]]:
    """Some columns of all rows of a table."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY id").fetchall()


def test_train_and_sweep_log_every_metric(tmp_path: Path) -> None:
    ape = elsewhere(tmp_path, "nothing.py", "")
    done = ape("train", "--scheme", "rope", "--task", "copy", "--log", "trackio", "--json", *SIZES)
    assert json.loads(done.stdout)["trained"]  # it prints nothing on stdout, which is for results
    ape("sweep", "--schemes", "none", "--tasks", "copy", "--log", "trackio", "--workers", "1", *SIZES)
    database = tmp_path / "trackio" / "ape.db"
    configs = {name: json.loads(text) for name, text in rows(database, "run_name, config", "configs")}
    metrics = rows(database, "run_name, step, metrics", "metrics")
    runs = list(open_registry(tmp_path / "results"))
    assert {run.name: run.record.config.scheme for run in runs} == {name: c["scheme"] for name, c in configs.items()}
    assert len(runs) == 2
    for run in runs:
        found = [(step, json.loads(text)) for name, step, text in metrics if name == run.name]
        validations = [{"step": step, **row} for step, row in found if "validation_loss" in row]
        assert validations == run.history().to_dicts()
        assert [step for step, row in found if "recent_loss" in row] == [10, 20]
