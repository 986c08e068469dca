"""The README is short, and what it says follows from the code and from the committed results."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from ape_cli import attention, position, tasks
from ape_cli.reports import published
from ape_cli.reports.views import verdicts
from ape_cli.runs.registry import open_registry
from tests.conftest import ape
from tests.record import summary

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.S)


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


def test_the_finding_follows_from_the_runs() -> None:
    """The sentences of results/README.md have the same numbers (`tests/test_results_page.py`)."""
    (lead,) = (re.search(r"by \d+ to \d+ points", fact) for fact in summary.of_leads())
    assert lead is not None
    assert f"leads the best encoding of sequences {lead[0]} on trees of depth 7" in " ".join(TEXT.split())
    assert "results/README.md#in-ten-sentences" in TEXT


def test_what_was_reproduced_follows_from_the_tables() -> None:
    text = " ".join(TEXT.split())
    registry = open_registry(ROOT / "results")
    told = Counter(cell.follows for cell in verdicts.read(registry, published.load("paper")))
    same, why, cause_open, none = (told[word] for word in get_args(verdicts.Word))
    assert (
        f"of the {told.total()} numbers in its tables 1 to 3, {same} are reproduced, {why} differ for a likely" in text
    )
    assert f"{cause_open} differ for an open one, and {none} were not run" in text
    cells = verdicts.read(registry, published.load("neurips"))
    told = Counter(cell.follows for cell in cells if cell.number.metric == "perplexity")
    same, why, cause_open, none = (told[word] for word in get_args(verdicts.Word))
    assert why == 0
    assert (
        f"of the {told.total()} perplexities in its tables 2a and 2b, {same} are reproduced, {cause_open} differ"
        in text
    )
    assert f"and {none} were not run" in text
    assert all(cell.ours is None or cell.ours.preset != "neurips" for cell in cells), "there are runs of its size"
    page = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    counts = [re.search(rf"`table{number}-paper`.*?\| (\d+) of (\d+) \|", page) for number in (1, 2)]
    done, planned = (sum(int(count[group]) for count in counts if count) for group in (1, 2))
    assert f"only {done} of the {planned} runs at the preprint's size" in text
