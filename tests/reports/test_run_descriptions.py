"""Descriptions of runs: versions of a user's own file are never averaged."""

from __future__ import annotations

from pathlib import Path

from ape_cli.core.errors import left_out
from ape_cli.reports import aggregation, descriptions, tables
from ape_cli.reports.views import Options
from ape_cli.runs.registry import Registry, open_registry
from tests.registered import edit
from tests.reports.test_aggregation import add

OLD, NEW = "a" * 64, "b" * 64


def trained_with(where: Path, digests: dict[str, str]) -> None:
    """Write the digest of the scheme's file into run.json of each run whose name begins like this."""
    for run in open_registry(str(where)):
        for begin, digest in digests.items():
            if run.name.startswith(begin):
                edit(Path(str(run.folder)) / "run.json", own_files={"rope": digest})


def rows(where: Path) -> dict[str, list[float]]:
    """The rows of the only table, each with its scores (-1 for an empty cell)."""
    with left_out() as bad:
        found = aggregation.lines(Registry(where), Options())
    assert not bad
    (table,) = tables.tables(found)
    return {row: [cell.mean if isinstance(cell, tables.Cell) else -1.0 for cell in cells] for row, cells in table.rows}


def test_seeds_of_two_versions_of_a_file_have_separate_rows(tmp_path: Path) -> None:
    for seed, value in ((1, 0.25), (2, 0.5), (3, 1.0)):
        add(tmp_path, "rope", value, seed)
    add(tmp_path, "none", 0.125)
    trained_with(tmp_path, {"reverse-rope-1": OLD, "reverse-rope-2": NEW, "reverse-rope-3": NEW})
    found = rows(tmp_path)
    assert found == {"none": [0.125], "rope (code aaaaaaa)": [0.25], "rope (code bbbbbbb)": [0.75]}


def test_a_row_has_one_version_in_all_columns(tmp_path: Path) -> None:
    """Each task has one version here, but a row must not join different versions."""
    add(tmp_path, "rope", 0.25)
    add(tmp_path, "rope", 0.5, task="copy", name="copy-small", fingerprint="e" * 64)
    trained_with(tmp_path, {"reverse": OLD, "copy": NEW})
    found = rows(tmp_path)
    assert found == {"rope (code aaaaaaa)": [-1.0, 0.25], "rope (code bbbbbbb)": [0.5, -1.0]}


def test_runs_without_a_digest_are_not_averaged_with_others(tmp_path: Path) -> None:
    """Early versions recorded none, so nobody knows with which file their runs were trained."""
    for seed, value in ((1, 0.25), (2, 0.5)):
        add(tmp_path, "rope", value, seed)
    trained_with(tmp_path, {"reverse-rope-2": NEW})
    assert rows(tmp_path) == {"rope": [0.25], "rope (code bbbbbbb)": [0.5]}


def test_runs_of_before_the_name_of_the_rotation_are_read() -> None:
    """Their records have `mirror`. The trees of these runs are mirrored, mirrored at the root, or rotated."""
    runs = open_registry(Path(__file__).parents[2] / "results" / "record" / "rotations.parquet")
    found = {
        (about.dataset.parameters.get("mirror"), descriptions.form_of(about.dataset)) for _, about in runs.readable()
    }
    assert found == {(None, ""), ("root", "rotation root"), ("search-tree", "rotation right")}
