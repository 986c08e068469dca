"""The order of tasks and schemes in tables, and the looks of schemes in figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ape_cli import tasks
from ape_cli.core.errors import UsageError
from ape_cli.reports import layout, published

NUMBERS = published.load("paper").numbers + published.load("neurips").numbers


def test_two_sources_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "paper.toml").touch()
    monkeypatch.setattr(published, "__path__", [*published.__path__, str(tmp_path)])
    with pytest.raises(UsageError, match="two sources of published numbers have the same name"):
        published.names()


def line(**fields: object) -> dict[str, object]:
    """The fields of a report's line that decide its place."""
    return {"task": "copy", "order": None, "form": "", "scheme": "rope", "row": "r", "column": "c"} | fields


@pytest.mark.parametrize("table", ["Table 1 of the preprint", "Table 2 of the preprint"])
def test_columns_stand_in_the_order_of_the_paper(table: str) -> None:
    found = []
    for column in dict.fromkeys(number.column for number in NUMBERS if number.table == table):
        task, _, order = column.partition("/")
        found.append(layout.column_rank(line(task=task, order=order or None, column=column)))
    assert found == sorted(found)
    assert found[-1] < layout.column_rank(line(task="tree-copy", order="breadth", form="branching 3"))
    assert found[-1] < layout.column_rank(line(task="not-here"))


def test_rows_stand_in_the_order_of_the_paper() -> None:
    rows = dict.fromkeys(number.row for number in NUMBERS if number.table == "Table 2 of the preprint")
    found = [layout.row_rank(line(scheme=name, row=name)) for name in rows]
    assert len(found) >= 5
    assert found == sorted(found)
    assert found[-1] < layout.row_rank(line(scheme="not-here"))


def test_default_tasks_are_those_of_the_tasks() -> None:
    found = {tasks.load(name).default_for: name for name in tasks.names() if tasks.load(name).default_for}
    assert found == {"seq": "reverse", "tree(k)": "tree-rotate", "grid(n)": "grid-rotate", "cyclic(n)": "ring-shift"}
