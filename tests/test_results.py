"""The committed results follow from the committed runs: five tables are printed again and compared.

`tests/nightly/test_results.py` prints the others.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ape_cli.core.errors import left_out
from ape_cli.data import generation
from ape_cli.evaluation.count_baselines import count_baselines
from ape_cli.experiment.choice import preset_dataset
from ape_cli.experiment.datasets import preset_plan
from ape_cli.runs import packing
from ape_cli.runs.registry import open_registry
from results import record
from tests import forks
from tests.conftest import ape
from tests.record.scores import PAGES
from tests.registered import vouch

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
RUNS = RESULTS / "record"
TABLES = RESULTS / "tables"
README = PAGES["README"]
# a table of each view and of each format, and their sweeps; `tests/nightly/test_results.py` prints the others
SOME = ("table1.md", "table1.csv", "table1-by-size.md", "digits-by-epoch.md", "tree-ops-by-operator.md")
OF_SOME = ["table1", "digits", "table2"]


@pytest.fixture(scope="module")
def counts() -> dict[str, tuple[int, int]]:
    """The numbers of finished runs and of all runs, for each sweep that has finished runs.

    It takes 4 seconds to read every committed run, in this process and in those that find the schemes of `record.OWN`.
    """

    def forked(words: list[str]) -> str:
        done = forks.run(words, ROOT, record.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "run", forked)
        return record.begun()


@pytest.fixture(scope="module")
def views(counts: dict[str, tuple[int, int]]) -> dict[str, list[str]]:
    """The arguments of the `ape report` that prints a file, for each generated table."""
    return record.views(list(counts))


@pytest.mark.parametrize("name", SOME)
def test_the_tables_of_record_are_those_of_the_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    check_table(name, record.views(OF_SOME)[name], tmp_path)


def check_table(name: str, words: list[str], folder: Path) -> None:
    """Checks that `ape report` prints the committed table."""
    own = name.startswith(tuple(record.OWN))  # its schemes are not found in this process
    printed = record.printed(words) if own else ape("report", *words)[0]
    if name.endswith(".csv"):  # the last digits of sums differ between processors
        (folder / name).write_text(printed)
        assert_frame_equal(pl.read_csv(folder / name), pl.read_csv(TABLES / name), rel_tol=1e-12)
    else:
        assert printed == (TABLES / name).read_text(encoding="utf-8")


def test_the_pages_quote_them(counts: dict[str, tuple[int, int]], views: dict[str, list[str]]) -> None:
    """`make record` would not change a page, and every committed table and plot is generated."""
    made = {path.name: path.read_text(encoding="utf-8") for path in TABLES.iterdir()}
    computed = record.computed()
    assert {name: made[name] for name in computed} == computed
    assert set(made) == {*views, *computed}
    for path, page in record.pages(made, counts).items():
        assert path.read_text(encoding="utf-8") == page, path
    assert {path.name for path in (record.PAGES / "plots").iterdir()} == {*counts, "table1-error", "findings"}


def test_each_sweep_has_a_page(counts: dict[str, tuple[int, int]]) -> None:
    """The README and the navigation link to it, and it links to its plots. Three more give verdicts and advice."""
    assert {path.stem for path in record.PAGES.glob("*.md")} == {
        *counts,
        "verdicts",
        "verdicts-preprint",
        "which-encoding",
    }
    navigation = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for sweep in counts:
        assert f'"results/{sweep}.md"' in navigation
        assert f"](../docs/results/{sweep}.md)" in README
        for plot in (record.PAGES / "plots" / sweep).iterdir():
            assert f"](plots/{sweep}/{plot.name})" in PAGES[sweep]


def test_nothing_is_told_of_sweeps_that_were_not_run(
    counts: dict[str, tuple[int, int]], views: dict[str, list[str]]
) -> None:
    sweeps = {path.stem for path in RESULTS.glob("*.toml")} - {"verdicts-neurips", "verdicts-paper"}
    waiting = sweeps - set(counts)
    assert set(record.ABOUT) == sweeps
    assert not [name for name in views if name.split(".")[0] in waiting]


def test_each_finding_shows_its_figure() -> None:
    figures = [path.name for path in (record.PAGES / "plots" / "findings").iterdir()]
    assert [name for name in figures if f"](../docs/results/plots/findings/{name})" not in README] == []


def test_each_table_is_on_a_page_or_named_there() -> None:
    text = "".join(PAGES.values())
    names = [path.name for path in TABLES.glob("*.md")]
    assert [name for name in names if f"<!-- {name} -->" not in text and f"`results/tables/{name}`" not in text] == []


def test_the_summary_is_short() -> None:
    assert len(README.splitlines()) <= 250
    assert len(README.split()) <= 2_500


def small_datasets() -> dict[tuple[str, str | None, str | None], set[str]]:
    """The fingerprints of the datasets of the committed runs of preset `small`, by task, order and chosen sizes."""
    found: dict[tuple[str, str | None, str | None], set[str]] = {}
    for _, about in open_registry(RUNS).readable():
        if about.config.preset == "small":
            data = about.dataset
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


def test_the_guide_to_tasks_quotes_these_counts() -> None:
    """The table of floors in docs/explanation/tasks.md, in exact match."""
    told = pl.read_csv(RESULTS / "floors.csv").filter(sweep="tasks")
    guide = (ROOT / "docs" / "explanation" / "tasks.md").read_text(encoding="utf-8")
    lines = guide.split("| task, preset `small` |")[1].splitlines()[2:8]
    for line in lines:
        name, *cells = line.strip("| ").split(" | ")
        column = next(c for c in sorted(set(told["column"]), key=len) if c.startswith(name.strip("`")))
        scores = {one["baseline"]: one["exact_match"] for one in told.filter(column=column).iter_rows(named=True)}
        wanted = [scores.get(one) for one in ("most frequent answer", "previous answer", "repeated answer")]
        assert cells == ["—" if score is None else f"{100 * score:.1f}" for score in (*wanted, max(scores.values()))]


def fingerprint_of(task: str, order: str | None, sizes: str | None, folder: Path) -> str:
    """The fingerprint of the dataset of preset `small`, which is generated for it."""
    made, plan, _ = preset_plan(task, order, "small", folder, sizes)
    return generation.generate(made, plan, folder / "data").manifest.fingerprint


def test_the_data_of_the_runs_is_still_generated(tmp_path: Path) -> None:
    known = small_datasets()
    some = (("copy", None), ("tree-ops", "depth"), ("c3", "breadth-to-depth"))
    for key in (*((*one, None) for one in some), ("copy", None, ",".join(map(str, range(1, 41))))):
        assert known[key] == {fingerprint_of(*key, tmp_path / f"{key[0]}-{bool(key[2])}")}, key


def test_the_readme_quotes_runs_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README shows the table of the two runs that the demo in the Makefile trains, from the committed runs."""
    wanted = [("tree-rotate", s) for s in ("sinusoidal", "orthogonal-tree")]
    packing.unpack(RUNS / "table2.parquet", tmp_path / "all")
    for run, about in open_registry(tmp_path / "all").readable():
        config, data = about.config, about.dataset
        own = (config.preset, config.seed, about.variant) == ("small", 42, {})
        if own and data.order in (None, "breadth") and (data.task, config.scheme) in wanted:
            shutil.copytree(Path(str(run.folder)), tmp_path / "results" / "runs" / run.name)
            for path in (tmp_path / "results" / "runs" / run.name / "eval").iterdir():
                if not path.name.startswith(data.fingerprint[:12]):
                    path.unlink()
            vouch(tmp_path / "results" / "runs" / run.name)
    monkeypatch.chdir(tmp_path)
    printed = ape("report", "--format", "markdown")[0]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())  # its caption is wrapped
    rows = [" ".join(line.split()) for line in printed.splitlines() if line and not line.startswith("#")]
    assert len(rows) == 1 + 2 + 2  # caption, runs, table heading
    assert not [line for line in rows if line not in readme]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_first_picture_has_scores_of_the_table(name: str) -> None:
    """The labels are the scores at depth 6 in the committed table. A nightly test draws the picture again."""
    table = (TABLES / "table2-by-size.md").read_text(encoding="utf-8")
    rows = table.split("### tree-rotate/breadth-to-depth by depth")[1].split("\n\n")[1].splitlines()
    heads, *lines = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    at = heads.index("6 (seen)")
    scores = {line[0]: re.sub("<.*?>", "", line[at]).split()[0] for line in lines[1:-2]}
    picture = (ROOT / "docs" / "pictures" / f"first-{name}.svg").read_text(encoding="utf-8")
    assert len(scores) == 5
    for scheme, score in scores.items():
        shown = re.search(rf">{scheme} +([\d.]+)%<", picture)
        assert shown
        assert float(shown[1]) == pytest.approx(float(score), abs=0.051)


def test_the_table_of_shuffled_pixels_is_that_of_the_runs() -> None:
    """The table is that of the runs. `none` scores as without shuffling, and all others score far less."""
    page = PAGES["pixels"].splitlines()
    first = page.index("| scheme | digits | shuffled |") + 2
    told = {
        scheme: (own, other) for scheme, own, other in (row.strip("| ").split(" | ") for row in page[first : first + 5])
    }
    found = {}
    for run, about in open_registry(RUNS).readable():
        if about.dataset.task == "images" and about.config.convolution_size == 1:
            scores = {e["dataset"]: e["overall"]["token_accuracy"] for e in run.evaluations()[0]}
            own, other = scores["images-digits"], scores["images-digits-shuffled"]
            found[about.config.scheme] = (f"{own:.2%}".rstrip("%"), f"{other:.2%}".rstrip("%"))
            assert other == own if about.config.scheme == "none" else other < own - 0.5
    assert found == told


@pytest.mark.parametrize(
    "where", [RUNS, *sorted(RESULTS.glob("*/runs.parquet"))], ids=["sweeps", "generalise", "processors"]
)
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


def test_a_run_of_several_sweeps_is_the_same_in_each() -> None:
    found: dict[str, dict[str, bytes]] = {}
    for file in RUNS.iterdir():
        of_file = packing.packed(file)
        assert of_file is not None
        for name, content in of_file.contents.items():
            assert found.setdefault(name, content) == content, f"{name} in {file.name}"
