"""The committed results follow from the committed runs: five tables are printed again and compared.

`tests/nightly/test_results.py` prints the others.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ape_cli.core.errors import left_out
from ape_cli.data import generation
from ape_cli.evaluation.count_baselines import count_baselines
from ape_cli.experiment.choice import preset_dataset, preset_plan
from ape_cli.runs.registry import open_registry
from results import plans, record
from tests.conftest import ape

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
RUNS = RESULTS / "record"
TABLES = RESULTS / "tables"
# a table of each view and of each format, and their sweeps; `tests/nightly/test_results.py` prints the others
SOME = ("table1.md", "table1.csv", "table1-by-size.md", "digits-by-epoch.md", "tree-ops-by-operator.md")
OF_SOME = ["table1", "digits", "table2"]


@pytest.mark.parametrize("name", SOME)
def test_the_tables_of_record_are_those_of_the_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    check_table(name, record.views(OF_SOME)[name], tmp_path)


def check_table(name: str, words: list[str], folder: Path) -> None:
    """Checks that `ape report` prints the committed table."""
    own = name.startswith(tuple(plans.OWN))  # its schemes are not found in this process
    printed = record.printed(words) if own else ape("report", *words)[0]
    if name.endswith(".csv"):  # the last digits of sums differ between processors
        (folder / name).write_text(printed)
        assert_frame_equal(pl.read_csv(folder / name), pl.read_csv(TABLES / name), rel_tol=1e-12)
    else:
        assert printed == (TABLES / name).read_text(encoding="utf-8")


def small_datasets() -> dict[tuple[str, str | None, str | None], set[str]]:
    """The fingerprints of the datasets of the committed runs of preset `small`, by task, order and chosen sizes.

    Those with other options or another number of rows, as in `chomsky` and `indirect`, are left out.
    """
    found: dict[tuple[str, str | None, str | None], set[str]] = {}
    for _, about in open_registry(RUNS).readable():
        data = about.dataset
        if about.config.preset == "small" and data.name.endswith("-small") and "-rows-" not in data.name:
            sizes = ",".join(map(str, data.parameters.get("sizes", ()))) or None
            found.setdefault((data.task, data.order, sizes), set()).add(data.fingerprint)
    return found


def test_what_counting_reaches_is_still_counted(tmp_path: Path) -> None:
    told = pl.read_csv(RESULTS / "floors.csv")
    for task, column in (("associative-recall", "associative-recall (queries 1)"), ("group-word", "group-word")):
        data = preset_dataset(task, None, "small", tmp_path)
        for baseline, scores in count_baselines(data, "test").counted.items():
            (line,) = told.filter(sweep="tasks", column=column, baseline=baseline).iter_rows(named=True)
            assert {name: round(score, 6) for name, score in scores.items()} == {name: line[name] for name in scores}


def fingerprint_of(task: str, order: str | None, sizes: str | None, folder: Path) -> str:
    """The fingerprint of the dataset of preset `small`, which is generated for it."""
    made, plan, _ = preset_plan(task, order, "small", folder, sizes)
    return generation.generate(made, plan, folder / "data").manifest.fingerprint


def test_the_data_of_the_runs_is_still_generated(tmp_path: Path) -> None:
    known = small_datasets()
    some = (("copy", None), ("tree-ops", "depth"), ("c3", "breadth-to-depth"))
    for key in (*((*one, None) for one in some), ("copy", None, ",".join(map(str, range(1, 41))))):
        assert known[key] == {fingerprint_of(*key, tmp_path / f"{key[0]}-{bool(key[2])}")}, key


@pytest.mark.parametrize("where", [RUNS, *sorted(RESULTS.glob("*/runs.parquet"))], ids=lambda where: where.parent.name)
def test_every_run_of_record_is_whole(where: Path) -> None:
    with left_out() as bad:
        runs = [pair for pair in open_registry(where).readable() if pair[1].status == "finished"]
    assert runs
    assert not bad
    for run, about in runs:
        assert not Path(about.dataset.path).is_absolute()
        evaluations, damaged = run.evaluations()
        assert evaluations
        assert not damaged
        assert run.history()["validation_token_accuracy"].max() == pytest.approx(about.outcome.best_accuracy)
