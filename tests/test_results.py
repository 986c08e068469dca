"""What is of record is what the registered runs say: every table there is printed again, and every page quotes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ape_cli import registry
from tests.conftest import ape

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
WAITING = {"table3"}  # for a GPU and for CIFAR-10
SWEEPS = sorted({path.stem for path in RESULTS.glob("*.toml")} - WAITING)


def report(*words: str) -> str:
    return ape("report", *words)[0]


@pytest.mark.parametrize("name", SWEEPS)
def test_the_tables_of_record_are_those_of_the_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    words = ["--sweep", f"results/{name}.toml"]
    table = RESULTS / "tables" / f"{name}.md"
    assert report(*words, "--against", "paper", "--format", "markdown") == table.read_text(encoding="utf-8")
    (tmp_path / "now.csv").write_text(report(*words, "--against", "paper", "--format", "csv"))
    assert_frame_equal(pl.read_csv(tmp_path / "now.csv"), pl.read_csv(table.with_suffix(".csv")), rel_tol=1e-12)
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert "{{" not in page
    for line in table.read_text(encoding="utf-8").splitlines():
        assert line in page.splitlines(), f"results/README.md does not quote {table.name} as it is"


def test_the_table_of_shuffled_pixels_is_that_of_the_runs() -> None:
    """And what it shows holds: `none` scores as before, all others far less."""
    page = (RESULTS / "README.md").read_text(encoding="utf-8").splitlines()
    first = page.index("| scheme | digits | shuffled |") + 2
    told = {
        scheme: (own, other) for scheme, own, other in (row.strip("| ").split(" | ") for row in page[first : first + 5])
    }
    found = {}
    for run, about in registry.open(RESULTS).sound([]):
        if about["dataset"]["task"] == "images" and about["config"]["convolution_size"] == 1:
            scores = {e["dataset"]: e["overall"]["token_accuracy"] for e in run.evaluations()[0]}
            own, other = scores["images-digits"], scores["images-digits-shuffled"]
            found[about["config"]["scheme"]] = (f"{own:.2%}".rstrip("%"), f"{other:.2%}".rstrip("%"))
            assert other == own if about["config"]["scheme"] == "none" else other < own - 0.5
    assert found == told


def test_nothing_is_told_of_sweeps_that_were_not_run() -> None:
    assert WAITING <= {path.stem for path in RESULTS.glob("*.toml")}
    assert not WAITING & {path.stem for path in (RESULTS / "tables").iterdir()}


def test_every_run_of_record_is_whole() -> None:
    bad: list[str] = []
    runs = [found for found in registry.open(RESULTS).sound(bad) if found[1]["status"] == "finished"]
    assert runs
    assert not bad
    for run, about in runs:
        assert not Path(about["dataset"]["path"]).is_absolute()
        evaluations, damaged = run.evaluations()
        assert evaluations
        assert not damaged
        assert run.history()["validation_token_accuracy"].max() == pytest.approx(about["result"]["best_accuracy"])
