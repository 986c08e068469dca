"""The README is short, and what it says follows from the code and from the committed results."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import polars as pl
import pytest

from ape_cli import attention, position, tasks
from ape_cli.reports import paper, verdicts
from tests.conftest import ape

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.S)
TREES, FLAT = ("tree", "orthogonal-tree"), ("sinusoidal", "rope", "orthogonal-seq")


def code(language: str) -> str:
    """The first block of code in a language."""
    return next(block for of, block in BLOCKS if of == language)


def test_it_is_short() -> None:
    assert len(re.sub(r"```.*?```", "", TEXT, flags=re.S).split()) <= 900
    assert max(len(line) for _, block in BLOCKS for line in block.splitlines()) <= 80


def test_its_links_and_pictures_exist() -> None:
    found = re.findall(r'(?:\]\(|src(?:set)?=")(?!https?:)([^)"#]+)(?:#([^)]+))?', TEXT)
    assert len(found) > 20
    assert [path for path, _ in found if not (ROOT / path).exists()] == []
    for path, anchor in found:
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.M) if anchor else []
        slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in slugs


def test_it_names_what_there_is() -> None:
    (told,) = re.findall(r"called \*schemes\*: (.*?), and (\d+) kinds of attention", TEXT, flags=re.S)
    assert re.findall(r"`([^`]+)`", told[0]) == position.names()
    counts = re.findall(r"\*\*(\d+) (?:tasks|encodings)\*\*", TEXT)
    assert [*counts, told[1]] == [str(len(of.names())) for of in (tasks, position, attention)]


def test_the_sample_is_what_show_prints(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal of 72 columns. The row depends only on the sizes of the trees, not on the number of rows."""
    monkeypatch.setenv("COLUMNS", "72")
    ape("gen", "tree-rotate", "--depth-mean", "4", "--n", "5", "--n-validation", "0", "--n-test", "0")
    shown = [line.rstrip() for line in ape("show", "tree-rotate-breadth", "--row", "4")[0].splitlines()]
    assert shown == code("").splitlines()


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in code("python").splitlines() if line and "import" not in line]) <= 5
    names: dict[str, object] = {}
    exec(code("python"), names)
    assert capsys.readouterr().out.startswith("tensor([[[[")


def test_the_citation_has_the_newest_release() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = re.findall(r"^version: (.*)$", citation, re.M)
    assert version == re.findall(r"version = \{(.*)\}", code("bibtex")) == re.findall(r"tag `v(.*?)`", TEXT)
    for name in re.findall(r"family-names: (.*)", citation):
        assert name in code("bibtex")


def mean_scores(preset: str) -> dict[tuple[str, str], float]:
    """The mean scores of the sweeps of tables 1 and 2 at a preset, in percent, by scheme and column."""
    files = [ROOT / "results" / "tables" / f"table{number}-{preset}.csv" for number in (1, 2)]
    lines = pl.concat([pl.read_csv(file, schema_overrides={"order": pl.String}) for file in files if file.exists()])
    lines = lines.filter(pl.col("variant").is_in(["", "precision=tf32"]))
    columns = pl.concat_str("task", "order", separator="/", ignore_nulls=True)
    return {(one, two): 100 * mean for one, two, mean in lines.select("scheme", columns, "mean").iter_rows()}


def test_what_was_reproduced_follows_from_the_tables() -> None:
    """The paper's `depth` columns are compared with `breadth-to-depth`."""
    text = " ".join(TEXT.split())
    published = {key: 100 * score for key, (score, _) in paper.scores().items() if not key[1].startswith("images")}
    published = {key: score for key, score in published.items() if not key[1].endswith("/depth")}
    medium, full = mean_scores("medium"), mean_scores("paper")
    told = Counter(cell.follows for cell in verdicts.read(ROOT / "results"))
    same, why, cause_open, none = (told[word] for word in get_args(verdicts.Word))
    assert (
        f"Of the {told.total()} numbers in its tables 1 to 3, {same} are reproduced, {why} differ for a reason" in text
    )
    assert f"{cause_open} differ for an open reason, and {none} were not run" in text
    for scores in (medium, published):
        for task in ("tree-copy", "tree-rotate", "c3", "tree-ops"):
            worst = min(scores[scheme, f"{task}/breadth-to-depth"] for scheme in TREES)
            assert worst > max(scores[scheme, f"{task}/breadth-to-depth"] for scheme in FLAT)
    for key in (("sinusoidal", "tree-rotate/breadth"), ("tree", "tree-ops/breadth")):
        assert f"{full[key]:.2f} on `{key[1]}` (paper: {published[key]:.2f})" in text
    rotated = [full[scheme, "tree-rotate/breadth"] for scheme in (*TREES, *FLAT)]
    assert max(rotated) - min(rotated) <= 1
    page = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    counts = [re.search(rf"`table{number}-paper`.*?\| (\d+) of (\d+) \|", page) for number in (1, 2)]
    done, planned = (sum(int(count[group]) for count in counts if count) for group in (1, 2))
    assert f"only {done} of the {planned} runs at the paper's own size" in text
