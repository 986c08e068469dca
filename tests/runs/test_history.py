"""Histories that cannot be read: each command leaves them out and names them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import ape
from tests.registered import vouch
from tests.reports.test_curves import learning, put


def test_a_report_leaves_out_a_bad_history_and_shows_the_others(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", [0.1, 0.5, 0.9])
    put(tmp_path, "none", [0.1, 0.5, 0.9])
    (folder / "history.parquet").write_text("no Parquet file")
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
