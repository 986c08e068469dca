"""Histories that cannot be read: each command leaves them out and names them."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ape
from tests.registered import vouch
from tests.reports.test_curves import put


def test_a_report_leaves_out_a_bad_history_and_shows_the_others(tmp_path: Path) -> None:
    folder = put(tmp_path, "rope", [0.1, 0.5, 0.9])
    put(tmp_path, "none", [0.1, 0.5, 0.9])
    (folder / "history.parquet").write_text("no Parquet file")
    vouch(folder)
    for words in (("--by", "epoch", "--format", "json"), ("--format", "html")):
        out, err = ape("report", *words, "--results", str(tmp_path))
        assert f"left out: {folder.name}: " in err
        assert "none" in out
