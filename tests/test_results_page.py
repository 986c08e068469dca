"""The pages of results are what their templates and the committed runs give, and each other number has a source.

`tests/test_results_words.py` checks what they say in words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from ape_cli.reports import published
from results import plans, queries, record
from tests import forks
from tests.conftest import ROOT

NUMBER = re.compile(r"(?<![\w.±])±?\d+\.\d+(?!\w|\.\d)|(?<![\w.,/])\d[\d,]*%")
TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in record.TEMPLATES.rglob("*.md")}
PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in [record.README, *sorted(record.PAGES.glob("*.md")), record.ELSEWHERE["paper.md"]]
}


@pytest.fixture(scope="module")
def counts() -> dict[str, tuple[int, int]]:
    """The numbers of finished runs and of all runs, for each sweep that has finished runs.

    It takes 4 seconds to read every committed run, in this process and in those that find the schemes of `plans.OWN`.
    """

    def forked(words: list[str]) -> str:
        done = forks.run(words, ROOT, plans.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "run", forked)
        return plans.begun()


def test_the_pages_are_those_of_the_runs(counts: dict[str, tuple[int, int]]) -> None:
    """If this fails, run `make record`, and look at what has changed. It takes 20 seconds to evaluate all queries."""
    made = {path.name: path.read_text(encoding="utf-8") for path in (record.RESULTS / "tables").iterdir()}
    computed = record.computed()
    assert {name: made[name] for name in computed} == computed
    assert set(made) == {*record.views(list(counts)), *computed}
    for path, page in record.pages(made, counts).items():
        assert path.read_text(encoding="utf-8") == page, path
    assert {path.name for path in (record.PAGES / "plots").iterdir()} == {*counts, "table1-error", "findings"}


def test_each_sweep_has_a_page(counts: dict[str, tuple[int, int]]) -> None:
    """The README and the navigation link to it, and it links to its plots. Three more give verdicts and advice."""
    more = {"verdicts", "verdicts-preprint", "which-encoding"}
    assert {path.stem for path in record.PAGES.glob("*.md")} == {*counts, *more}
    navigation = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    for sweep in counts:
        assert f'"results/{sweep}.md"' in navigation
        assert f"](../docs/results/{sweep}.md)" in PAGES["README"]
        for plot in (record.PAGES / "plots" / sweep).iterdir():
            assert f"](plots/{sweep}/{plot.name})" in PAGES[sweep]
    sweeps = {path.stem for path in record.RESULTS.glob("*.toml")} - {"verdicts-neurips", "verdicts-paper"}
    assert set(plans.ABOUT) == sweeps
    assert not [name for name in record.views(list(counts)) if name.split(".")[0] in sweeps - set(counts)]


def test_each_table_and_figure_is_on_a_page_or_named_there() -> None:
    text = "".join(PAGES.values())
    tables = [path.name for path in (record.RESULTS / "tables").glob("*.md")]
    assert [name for name in tables if f"<!-- {name} -->" not in text and f"`results/tables/{name}`" not in text] == []
    figures = [path.name for path in record.FINDINGS.iterdir()]
    assert [name for name in figures if f"plots/findings/{name})" not in text] == []


def test_captions_name_the_metric_of_their_plots() -> None:
    metrics = re.compile("token accuracy|exact match|perplexity|top-1 accuracy", flags=re.I)
    for page, text in PAGES.items():
        for caption, plot in re.findall(r"^!\[(.*?)\]\(.*?plots/(.*?)\)", text, flags=re.M):
            drawn = re.sub(r"\s*<[^>]*>\s*", " ", (record.PAGES / "plots" / plot).read_text(encoding="utf-8"))
            drawn = " ".join(drawn.lower().split())
            assert [name for name in metrics.findall(caption) if name.lower() not in drawn] == [], (page, plot)


def test_numbers_in_a_template_are_published_or_settings() -> None:
    """All others are queries. Text in backquotes is skipped, and the page about the paper quotes its code."""
    known = {f"{100 * number.value:.2f}" for number in published.load("paper").numbers}
    known |= {f"{number.value:.2f}" for number in published.load("neurips").numbers}
    known |= {f"±{100 * number.spread:.1f}" for number in published.load("paper").numbers if number.spread}
    known |= {"2.13", "2.11", "0.15", "0.98", "1.5"}  # versions of PyTorch, settings of the preprint and of a test set
    known |= {"0.002"}  # how much a permuted source changes a logit of the authors' code; measured with that code
    known |= {"4.3", "0.00"}  # a section of the preprint, and published intervals
    known |= {"3.11"}  # the Python whose standard library the natural trees are from
    known |= {"2.7"}  # a section of the notes
    known |= {"1%", "5%", "15%", "90%", "95%", "100%"}  # levels of tests, rules, intervals, masked labels
    known |= {"94.82", "11.16", "1.7"}  # published scores of indirect indexing, and a bound of its page
    found = {
        (page, number)
        for page, text in TEMPLATES.items()
        for number in NUMBER.findall(re.sub(r"`[^`]*`", "", queries.QUERY.sub("", text)))
        if page != "paper" and number not in known
    }
    assert found == set()
    assert sum(len(queries.QUERY.findall(text)) for text in TEMPLATES.values()) > 400


def test_the_ten_sentences_are_short() -> None:
    """Each has at most 35 words and four numbers, also those in brackets. Names such as `2a` are not numbers."""
    part = PAGES["README"].partition("## In ten sentences")[2].partition("##")[0]
    sentences = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\Z)", part, flags=re.M | re.S)
    assert len(sentences) == 10
    for sentence in sentences:
        assert len(sentence.split()) <= 35, sentence
        assert len(re.findall(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?!\w)", sentence)) <= 4, sentence


def test_cells_of_tables_are_short() -> None:
    """On the page with advice, and no table of a page has more than eight columns of scores."""
    rows = [line for line in PAGES["which-encoding"].splitlines() if line.startswith("|")]
    assert max(len(cell.split()) for row in rows for cell in row.split("|")) <= 12
    for page in ("table2", "table2-medium"):
        assert max(line.count("|") for line in PAGES[page].splitlines() if line.startswith("|")) <= 9


def test_a_page_has_one_name() -> None:
    """Its title in the menu is how its heading begins, and no two entries have the same title."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]

    def entries(nav: list[Any]) -> Iterator[tuple[str, str]]:
        for entry in nav:
            for title, inner in entry.items() if isinstance(entry, dict) else ():
                yield from entries(inner) if isinstance(inner, list) else [(title, inner)]

    found = dict(entries(project["nav"]))
    assert len(found) == len(list(entries(project["nav"])))
    for title, page in found.items():
        heading = (ROOT / "docs" / page).read_text(encoding="utf-8").partition("\n")[0].replace("`", "")
        assert heading.startswith(f"# {title}") or page.startswith(("index.md", "changelog.md", "reference/")), page
