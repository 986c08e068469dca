"""What a table says is about the lines that it shows: which columns are tuned, and what is underlined in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli.reports.tables import Cell, Table, rules
from ape_cli.reports.views import Options, load
from ape_cli.runs import filters
from ape_cli.runs.record import evaluation_name
from ape_cli.runs.registry import Registry
from tests.registered import edit, fingerprint_of
from tests.reports import test_curves
from tests.reports.test_aggregation import add
from tests.reports.views import test_by_epoch, test_by_size

HIGH = {"lr_peak": 0.003}


def tables(where: Path, view: str = "scores", **options: Any) -> list[Table]:
    made = load(view)
    return made.tables(made.read(Registry(where), Options(**options)))


def underlined(table: Table) -> dict[str, list[str]]:
    """The rows that are underlined in each column that has scores."""
    return {
        column: [row for row, cells in table.rows if isinstance(cell := cells[i], Cell) and cell.best]
        for i, column in enumerate(table.columns)
        if any(isinstance(cells[i], Cell) for _, cells in table.rows)
    }


@pytest.fixture
def half_tuned(tmp_path: Path) -> Path:
    """Two rates of `rope` on `copy`, and one setting of each scheme on `reverse`."""
    for task in ("copy", "reverse"):
        for scheme, value in (("rope", 0.9), ("alibi", 0.5)):
            test_by_size.put(tmp_path, scheme, {task: {5: (40, 40), 8: (int(40 * value), 40)}}, task=task, name=task)
    test_by_size.put(tmp_path, "rope", {"copy": {5: (40, 40), 8: (30, 40)}}, task="copy", name="copy", variant=HIGH)
    return tmp_path


def test_each_column_is_tuned_or_not(half_tuned: Path) -> None:
    (table,) = tables(half_tuned)
    assert underlined(table) == {"copy on copy": [], "reverse on reverse": ["rope (lr_peak=0.002)"]}
    assert "Not tuned in copy on copy: nothing is underlined there." in table.notes


def test_a_single_score_has_no_mark(tmp_path: Path) -> None:
    """Alone in its table or only in its column: the marks of a column do not depend on the other columns."""
    for task, schemes in {"copy": ("rope", "alibi"), "reverse": ("rope",)}.items():
        for scheme in schemes:
            add(
                tmp_path,
                scheme,
                0.5 if scheme == "alibi" else 0.9,
                task=task,
                name=task,
                fingerprint=fingerprint_of(task),
            )
    (table,) = tables(tmp_path)
    assert underlined(table) == {"copy": ["rope"], "reverse": []}
    assert "Underlined: the best score of each column." in rules([table])
    for task, rows in underlined(table).items():
        one = Registry(tmp_path).where(filters.make(None, [task], None))
        (alone,) = load("scores").tables(load("scores").read(one, Options()))
        assert underlined(alone) == {task: rows}


def renamed(folder: Path, fingerprint: str, name: str) -> None:
    """Call the data of an evaluation by another name."""
    edit(folder / evaluation_name(fingerprint, "test", "teacher"), dataset=name)


@pytest.mark.parametrize("view", ["by-size", "generalisation"])
def test_other_data_with_the_same_name_has_a_table_of_its_own(tmp_path: Path, view: str) -> None:
    """A dataset was generated again with other rows, under the name that other runs know. The digits tell which."""
    for scheme, data, right in (("rope", "a", 10), ("alibi", "b", 90)):
        folder = test_by_size.put(tmp_path, scheme, {data: {5: (100, 100), 8: (right, 100)}}, task="copy", name="copy")
        renamed(folder, fingerprint_of(data), "longer")
    made = tables(tmp_path, view)
    names = [f"copy on longer {fingerprint_of(data)[:6]}" for data in ("a", "b")]
    assert sorted(table.title.partition(" b")[0] for table in made) == sorted(names)
    assert all(len(table.rows) == 1 for table in made)
    assert not any(table.underlines for table in made)


def test_a_dataset_has_one_name_in_a_report(tmp_path: Path) -> None:
    """Two copies of the training data, and two of the other data, one for each scheme."""
    for scheme, name, other in (("rope", "zzz", "far"), ("alibi", "aaa", "away")):
        given = {"task": "copy", "name": name, "fingerprint": fingerprint_of("own")}
        folder = test_by_size.put(tmp_path, scheme, {"own": {5: (40, 40)}, "other": {8: (20, 40)}}, **given)
        renamed(folder, fingerprint_of("own"), name)
        renamed(folder, fingerprint_of("other"), other)
    (table,) = tables(tmp_path, "by-size")
    assert "aaa" not in " ".join(table.notes)
    made = load("by-size")
    frame = made.frame(made.read(Registry(tmp_path), Options()))
    assert set(frame.select("trained_on", "on").rows()) == {("aaa", "aaa, away")}


def test_settings_that_a_table_does_not_show_leave_it_tuned(tmp_path: Path) -> None:
    """The second setting has no test scores, so the tables of these have one setting for each scheme."""
    for scheme, scores, of in (("rope", [0.5, 0.6], {}), ("rope", None, HIGH), ("none", [0.4, 0.5], {})):
        test_by_epoch.put(tmp_path, scheme, [0.5, 0.6], scores, variant=of)
    validation, *others = tables(tmp_path, "by-epoch")
    assert any(note.startswith("Not tuned") for note in validation.notes)
    assert len(others) == 2
    assert all(table.underlines and not any(note.startswith("Not tuned") for note in table.notes) for table in others)


def test_several_schedules_are_several_settings_by_epoch_too(tmp_path: Path) -> None:
    """The ends of two schedules are two columns, but the schedules are settings of one scheme on one task."""
    test_curves.put(tmp_path, "rope", [0.5, 0.6], variant={"steps": 200})
    test_curves.put(tmp_path, "rope", [0.5, 0.6, 0.7, 0.8, 0.8, 0.9], variant={"steps": 600})
    test_curves.put(tmp_path, "alibi", [0.5, 0.6, 0.7, 0.7, 0.8, 0.8], variant={"steps": 600})
    (by_epoch,), (scores,) = tables(tmp_path, "by-epoch"), tables(tmp_path)
    for table in (by_epoch, scores):
        assert not table.underlines
        assert "Not tuned: nothing is underlined." in table.notes


def test_the_middle_of_a_schedule_is_not_compared_with_the_end_of_another(tmp_path: Path) -> None:
    """One schedule ends at step 200, which is half of the other. Each has two schemes."""
    test_curves.put(tmp_path, "rope", [0.5, 0.6])
    test_curves.put(tmp_path, "none", [0.4, 0.5])
    test_curves.put(tmp_path, "alibi", [0.5, 0.7, 0.7, 0.9])
    test_curves.put(tmp_path, "t5", [0.5, 0.6, 0.6, 0.8])
    (table,) = tables(tmp_path, "by-epoch")
    assert table.columns == ["@100 steps", "@200 steps (end)", "@200 steps (half)", "@400 steps"]
    assert underlined(table) == {
        "@100 steps": ["rope"],
        "@200 steps (end)": ["rope"],
        "@200 steps (half)": ["alibi"],
        "@400 steps": ["alibi"],
    }
