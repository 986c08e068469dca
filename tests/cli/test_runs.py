"""`ape rm` removes the named runs and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ape_cli.core.errors import BusyError, RunError
from ape_cli.runs.registry import open_registry
from ape_cli.storage import files
from tests.conftest import ape
from tests.reports.test_aggregation import add


@pytest.fixture
def two(here: Path) -> list[str]:
    """The names of two runs."""
    add(here / "results", "rope", 0.5)
    add(here / "results", "none", 0.25)
    return [run.name for run in open_registry("results")]


def test_a_run_is_removed_with_everything_in_its_folder(two: list[str]) -> None:
    (Path("results/runs") / two[0] / "logs").mkdir()
    files.write_text(Path("results/runs") / two[0] / "logs" / "mine.txt", "text")
    assert json.loads(ape("rm", two[0][:-2], "--yes", "--json")[0]) == {"removed": [two[0]]}
    assert [path.name for path in Path("results/runs").iterdir()] == [two[1]]


def test_nothing_is_removed_if_a_name_is_wrong_or_nobody_can_be_asked(two: list[str]) -> None:
    assert "unknown run" in ape("rm", two[0], "no-such-run", "--yes", code=2)[1]
    assert "add --yes" in ape("rm", two[0], code=2)[1]
    # as that of an unset variable of a shell: it is the beginning of every name
    assert "the name of a run is empty" in ape("rm", "", "--yes", code=2)[1]
    assert [run.name for run in open_registry("results")] == two


def test_a_damaged_run_can_be_removed(two: list[str]) -> None:
    (Path("results/runs") / two[0] / "run.json").write_text("{")
    assert "damaged" in ape("rm", two[0], "--yes")[1]
    assert [run.name for run in open_registry("results")] == [two[1]]


def test_a_run_that_is_being_trained_stays(two: list[str]) -> None:
    run = open_registry("results").find(two[0])
    with files.locked(run.folder / ".lock", BusyError("busy")), pytest.raises(BusyError, match="is training"):
        run.delete()
    assert (run.folder / "run.json").exists()


def test_what_a_link_leads_to_stays(two: list[str], tmp_path: Path) -> None:
    run = open_registry("results").find(two[0])
    run.folder.rename(tmp_path / "precious")
    run.folder.symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="is a symbolic link"):
        run.delete()
    assert (tmp_path / "precious" / "run.json").exists()
