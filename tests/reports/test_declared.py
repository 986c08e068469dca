"""Tasks and schemes declare their place in tables and their look in figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ape_cli import position, tasks
from ape_cli.core.errors import UsageError
from ape_cli.reports import declared, palette, tables

PAPER = json.loads((Path(declared.__file__).parent / "paper_tables.json").read_text(encoding="utf-8"))


def line(**fields: object) -> dict[str, object]:
    """The fields of a report's line that decide its place."""
    return {"task": "copy", "order": None, "form": "", "scheme": "rope", "row": "r", "column": "c"} | fields


def test_what_is_read_from_the_files_is_what_the_classes_say() -> None:
    """The attributes of all imported schemes agree with the literals that are read from their files."""
    for name in position.names():
        scheme = position.load(name)
        place = vars(scheme).get("table_place", declared.LAST)
        assert declared.scheme_place(name) == place, name
        assert declared.palette_index(name) == vars(scheme).get("palette_index"), name
    given = [index for name in position.names() if (index := declared.palette_index(name)) is not None]
    assert sorted(given) == list(range(len(palette._PALETTE)))  # each look belongs to one scheme


@pytest.mark.parametrize("table", ["table1", "table2"])
def test_columns_stand_in_the_order_of_the_paper(table: str) -> None:
    found = []
    for column in PAPER[table]["columns"]:
        task, _, order = column.partition("/")
        found.append(tables.column_rank(line(task=task, order=order or None, column=column)))
    assert found == sorted(found)
    assert found[-1] < tables.column_rank(line(task="tree-copy", order="breadth", form="branching 3"))
    assert found[-1] < tables.column_rank(line(task="not-here"))


def test_rows_stand_in_the_order_of_the_paper() -> None:
    found = [
        tables.row_rank(line(scheme=name, row=name)) for name in PAPER["table2"]["rows"] if name in position.names()
    ]
    assert len(found) >= 5
    assert found == sorted(found)
    assert found[-1] < tables.row_rank(line(scheme="not-here"))


SCHEMES = {
    "first.py": "table_place: int = 0\n    palette_index = 8",  # before `none`; the place of `rope`
    "second.py": "table_place = 1 - 1\n    palette_index = True",  # not literals of whole numbers
    "third.py": "palette_index = 99",
    "broken.py": "palette_index = = 1",
}


def test_schemes_of_somebody_s_own_without_an_import_of_torch(tmp_path: Path) -> None:
    """In a separate process, with the folder on the path."""
    folder = tmp_path / "ape_cli" / "position"
    folder.mkdir(parents=True)
    for name, text in SCHEMES.items():
        (folder / name).write_text(
            f"import torch\n\nfrom ape_cli.position import Scheme\n\n\nclass Own(Scheme):\n    {text}\n"
        )
    script = """
import json, sys
from ape_cli.core.errors import ApeError
from ape_cli.reports import declared, palette
names = ["first", "second", "third", "broken", "absent", "none"]
found = {name: [declared.scheme_place(name), declared.palette_index(name)] for name in names}
looks = palette.looks(["first", "rope", "second"])
found["marks"] = [looks[name].mark for name in ("first", "rope")]
try:
    palette.looks(["third"])
except ApeError as error:
    found["error"] = str(error)
assert "torch" not in sys.modules
print(json.dumps(found))
"""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    last = declared.LAST
    assert found["first"] == [0, 8]
    assert found["second"] == found["broken"] == found["absent"] == [last, None]
    assert found["third"] == [last, 99]
    assert found["none"] == [declared.scheme_place("none"), 0]
    assert found["marks"][0] == "o"  # two schemes choose the same index, and the first by name has it
    assert found["marks"][1] != "o"
    assert "bad palette_index of scheme 'third'" in found["error"]
    assert "0 to 13" in found["error"]


def test_a_bad_index_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palette, "palette_index", lambda scheme: -1)
    with pytest.raises(UsageError, match="palette_index"):
        palette.looks(["rope"])


def test_default_tasks_are_those_of_the_tasks() -> None:
    found = {tasks.load(name).default_for: name for name in tasks.names() if tasks.load(name).default_for}
    assert found == {"seq": "reverse", "tree(k)": "tree-rotate", "grid(n)": "grid-rotate", "cyclic(n)": "ring-shift"}
