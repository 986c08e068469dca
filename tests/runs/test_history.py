"""Histories that cannot be, with a right digest or without one: each command refuses them, or names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ape_cli.core.errors import RunError
from ape_cli.runs import history
from ape_cli.runs.audit import audit
from ape_cli.runs.registry import open_registry
from ape_cli.runs.run import Run
from tests.conftest import ape
from tests.registered import vouch
from tests.reports.test_curves import TRAINED, learning, put

ACCURACY = "validation_token_accuracy"
Change = Callable[[pa.Table], pa.Table]


def column(name: str, values: Any, kind: pa.DataType | None = None) -> Change:
    """The change of a column of a table of three rows."""
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(values, kind))


def twice(table: pa.Table) -> pa.Table:
    return table.append_column("step", table["step"])


CHANGES: list[tuple[str, Change, str]] = [
    ("null accuracies", column(ACCURACY, [None] * 3, pa.float64()), f"row 1 of the history: {ACCURACY}"),
    ("one null accuracy", column(ACCURACY, [0.1, None, 0.2]), f"row 2 of the history: {ACCURACY}"),
    ("nan", column(ACCURACY, [0.1, 0.2, float("nan")]), f"row 3 of the history: {ACCURACY}"),
    ("infinity", column("validation_loss", [0.1, float("inf"), 1.0]), "row 2 of the history: validation_loss"),
    ("an accuracy of 7.5", column(ACCURACY, [0.1, 7.5, 0.2]), f"row 2 of the history: {ACCURACY}"),
    ("steps that are floats", column("step", [100.0, 200.0, 300.0]), "row 1 of the history: step"),
    ("steps that are nan", column("step", [float("nan")] * 3), "row 1 of the history: step"),
    ("large steps", column("step", [1, 2, 2**64 - 1], pa.uint64()), "row 3 of the history: step"),
    ("a step of 0", column("step", [0, 1, 2]), "row 1 of the history: step"),
    ("a negative step", column("step", [-1, 1, 2]), "row 1 of the history: step"),
    ("equal steps", column("step", [100, 100, 300]), "steps of the history: 100 after 100, of 300"),
    ("falling steps", column("step", [100, 300, 200]), "steps of the history: 200 after 300, of 300"),
    ("a step after the last one", column("step", [100, 200, 301]), "steps of the history: 301 after 200, of 300"),
    ("a fraction of an epoch", column("epoch", [0.5, 1.0, 1.5]), "row 1 of the history: epoch"),
    ("no accuracy", lambda table: table.drop_columns([ACCURACY]), f"row 1 of the history: {ACCURACY}"),
    ("no column at all", lambda table: table.select([]), "there are no rows"),
    ("no rows", lambda table: table.slice(0, 0), "there are no rows"),
    ("a column twice", twice, "two columns have the same name"),
    ("another column", lambda table: table.append_column("x", table["step"]), "row 1 of the history: unknown column x"),
    ("half-precision floats", column("lr", [0.5] * 3, pa.float16()), ""),
]


@pytest.mark.parametrize(("change", "message"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES])
def test_a_history_that_cannot_be(tmp_path: Path, change: Change, message: str) -> None:
    folder = put(tmp_path, "rope", [0.1, 0.5, 0.9])
    path = folder / "history.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    vouch(folder)
    if not message:  # another type for the same numbers
        assert Run(folder).history()[ACCURACY].to_list() == [0.1, 0.5, 0.9]
        return
    with pytest.raises(RunError, match="history") as caught:
        Run(folder).history()
    assert message in str(caught.value)
    assert message in audit(Run(folder)).problems[0]


def test_a_report_leaves_out_a_bad_history_and_shows_the_others(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", [0.1, 0.5, 0.9])
    put(tmp_path, "none", [0.1, 0.5, 0.9])
    path = folder / "history.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    vouch(folder)
    for words in (("--by", "epoch", "--format", "json"), ("--format", "html")):
        out, err = ape("report", *words, "--results", str(tmp_path))
        assert f"left out: {folder.name}: " in err
        assert "none" in out


def test_steps_of_any_whole_type_are_compared(tmp_path: Path) -> None:
    """Polars does not put columns of different types below one another."""
    for seed, kind in ((1, pa.int64()), (2, pa.int16()), (3, pa.uint64())):
        path = put(tmp_path, "rope", [0.1, 0.5], seed) / "history.parquet"
        table = pq.read_table(path)
        pq.write_table(table.set_column(table.column_names.index("step"), "step", table["step"].cast(kind)), path)
        vouch(path.parent)
    (panel,) = learning(tmp_path)
    assert panel.lines["x"].to_list() == [100, 200]
    assert panel.lines["seeds"].to_list() == [3, 3]


def test_a_column_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", [0.1, 0.5])
    put(tmp_path, "none", [0.1, 0.5])
    path = folder / "history.parquet"
    pq.write_table(pq.read_table(path).rename_columns({"tokens": "tokenZ"}), path)
    path.write_bytes(path.read_bytes().replace(b"tokenZ", b"token\xff"))
    vouch(folder)
    for words in (("verify",), ("report", "--by", "epoch"), ("report", "--by", "epoch", "--format", "json")):
        out, err = ape(*words, "--results", str(tmp_path), code=int(words[0] == "verify"))
        assert f"cannot read {path} (" in out + err


def test_a_history_that_is_a_pipe(tmp_path: Path) -> None:
    path = put(tmp_path, "rope", [0.1]) / "history.parquet"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RunError, match=r"cannot read .*\n  got:     it is no regular file"):
        Run(path.parent).history()


def test_every_history_of_record_is_accepted() -> None:
    found = [run.history().height for run in open_registry("results") if run.status == "finished"]
    assert len(found) > 300
    assert min(found) >= 8


def test_rows_of_an_earlier_version_without_test_scores() -> None:
    """A history has the columns of its last row. They are in the same order, and missing values are null."""
    plain = {"step": 1, **TRAINED, "validation_loss": 1, "validation_token_accuracy": 0.5}
    tested = plain | {"step": 2, "test_loss": 1.0, "test_token_accuracy": 0.5, "kept": True}
    rows = list(history.checked([plain, tested]))
    assert [list(row) for row in history.written(rows)] == [list(history.Row.model_fields)] * 2
    assert history.written(rows)[0]["kept"] is None
    assert type(rows[0]["validation_loss"]) is float  # a column of a table has one type
    assert history.written([]) == []
