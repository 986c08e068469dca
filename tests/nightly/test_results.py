"""Every committed table follows from the committed runs, and their drawn datasets are still generated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.data import generation
from ape_cli.data.manifest import read_manifest
from ape_cli.experiment import suites
from ape_cli.experiment.choice import preset_plan
from ape_cli.runs.registry import open_registry
from ape_cli.tasks import Task
from results import figures, first_picture, plans, record
from results.queries import chomsky
from tests.conftest import ROOT, ape
from tests.test_results import RUNS, SOME, TABLES, check_table, fingerprint_of, small_datasets

OTHERS = {*SOME, *record.computed()}
GENERATED = sorted(path.name for path in TABLES.iterdir() if path.name not in OTHERS)


@pytest.mark.parametrize("name", GENERATED)
def test_the_tables_of_record_are_those_of_the_runs(
    name: str, counts: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", plans.environment()["COLUMNS"])
    check_table(name, record.views(list(counts))[name], tmp_path)


def test_the_first_picture_is_that_of_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, run `make record` and commit the pictures."""
    monkeypatch.chdir(ROOT)
    pictures = first_picture.drawn(ape("report", *record.selection("table2"), *first_picture.WORDS)[0])
    assert pictures == {path.name: path.read_text(encoding="utf-8") for path in first_picture.PICTURES.glob("first-*")}


def test_the_figures_are_those_of_the_runs() -> None:
    """If this fails, run `make record` and commit the figures."""
    drawn = figures.drawn(open_registry(RUNS), plans.planned)
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in record.FINDINGS.iterdir()}


def test_the_data_of_small_runs_is_still_generated(tmp_path: Path) -> None:
    """Every dataset that a task draws at preset `small`. It takes 10 seconds: 40 datasets of 22,000 rows."""
    drawn = [name for name in tasks.names() if issubclass(tasks.load(name), Task)]
    known = {key: found for key, found in small_datasets().items() if key[0] in drawn}
    assert len(known) == 40
    for number, (key, found) in enumerate(known.items()):
        assert fingerprint_of(*key, tmp_path / str(number)) in found, key


def test_the_data_of_the_fifteen_tasks_is_still_generated_with_the_overlap_on_their_page(tmp_path: Path) -> None:
    known = {about.dataset.fingerprint for _, about in open_registry(RUNS).readable()}
    for task in suites.load(chomsky.SUITE).tasks:
        made, plan, folder = preset_plan(task.text, None, "small", tmp_path, "1-20", 200_000)
        generation.generate(made, plan, folder, verify=False)
        assert read_manifest(folder).fingerprint in known, task.name
        shared = read_manifest(folder).stored_overlap
        assert shared is not None
        assert shared.rows["test"] == chomsky.SHARED[task.name], task.name
        shutil.rmtree(folder)
