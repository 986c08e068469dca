"""Every committed table follows from the committed runs, and their drawn datasets are still generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.tasks import Task
from tests.conftest import ROOT
from tests.test_results import SOME, TABLES, check_table, fingerprint_of, record, small_datasets

GENERATED = sorted(path.name for path in TABLES.iterdir() if path.name not in (*SOME, *record.computed()))


@pytest.mark.parametrize("name", GENERATED)
def test_the_tables_of_record_are_those_of_the_runs(
    name: str, views: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    check_table(name, views[name], tmp_path)


def test_the_data_of_small_runs_is_still_generated(tmp_path: Path) -> None:
    """Every dataset that a task draws at preset `small`. It takes 10 seconds: 32 datasets of 22,000 rows."""
    known = {key: found for key, found in small_datasets().items() if issubclass(tasks.load(key[0]), Task)}
    assert len(known) == 32
    for number, (key, found) in enumerate(known.items()):
        assert fingerprint_of(*key, tmp_path / str(number)) in found, key
