"""The page of a report: it is complete, escaped and self-contained."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import Markup

import ape_cli
from ape_cli.reports import html_page
from ape_cli.reports.html_page import PageFigure, Section
from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Cell, Table
from ape_cli.reports.views.scores import dot_plot
from tests.conftest import ape
from tests.figures import table
from tests.reports.test_aggregation import Checker, add, tables_of

SVG = PageFigure("By size", "", [("", Markup('<svg role="img"><g id="by-size-x"></g></svg>'))])


class Page(Checker):
    """Collects the tags that are open at the end, the targets of links, scripts and styles, and the visible words."""

    def __init__(self) -> None:
        super().__init__()
        self.own: dict[str, list[str]] = {"script": [], "style": []}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        for key, value in attrs:
            assert key not in ("src", "srcset", "action", "background", "poster", "data", "ping")
            assert not key.startswith("on")
            if key == "id":
                self.ids.append(value or "")
            if key == "href":
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.own:
            self.own[self.open[-1]].append(data)
        else:
            self.words += data


def parse(text: str) -> Page:
    found = Page()
    found.feed(text)
    found.close()
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert all(link[0] == "#" and link[1:] in found.ids for link in found.links)  # within the page
    return found


def page_of(figure: PageFigure) -> str:
    return html_page.page([Section("Scores", [], figure)])


def test_tables_and_plots_in_one_page_that_needs_nothing(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.9)
    made = tables_of(tmp_path)
    sections = [
        Section("Scores", made),
        Section("By size", made, SVG),
        Section("By operator", []),
        Section("Learning curves", [], PageFigure("", "", [("", Markup("<svg></svg>"))])),
    ]
    text = html_page.page(sections)
    found = parse(text)
    assert text.count("<svg") == 2
    assert re.search(r"https?:|@import|url\(|<link|<iframe|<object", text) is None
    assert "#by-size" in found.links
    assert [x for x in ("Scores", "By size", "Learning curves") if f">{x}</h2>" not in text] == []
    assert "90.00" in found.words
    assert "color-scheme: light dark" in text
    assert text == html_page.page(sections)
    assert "Without plots" not in found.words
    text = html_page.page([Section("Scores", made)], missing="pip install matplotlib")
    assert text.count("<h2") == 1
    assert "Without plots, which need matplotlib: pip install matplotlib." in parse(text).words


def test_a_figure_is_divided_into_panels_beside_one_legend() -> None:
    """Each column of the table is a panel with its title. Names are escaped, and ids are unique."""
    cells: list[Cell | None] = [Cell(0.5, None, 1, False, None), Cell(0.6, 0.1, 3, False, None)]
    made = table({"rope": cells, "<b> (x=1)": cells}, ["<i>", "copy"])
    plot = dot_plot([made])
    text = page_of(html_page.figure(plot, "scores", "Scores", "A caption.", "score", looks(plot.rows)))
    found = parse(text)
    assert re.findall(r'<div class="panel"><p>([^<]*)</p>', text) == ["&lt;i&gt;", "copy"]
    assert re.findall(r"<span>([^<]*)</span></li>", text) == [
        "rope",
        "&lt;b&gt; (x=1)",
        "± one standard deviation over seeds",
    ]
    assert '<svg role="img" aria-label="Scores, &lt;i&gt;: a plot"' in text
    assert text.count('<svg aria-hidden="true"') == 3
    assert len(found.ids) > 10
    used = re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text)
    assert set(used) <= set(found.ids)
    whole = page_of(html_page.figure(replace(plot, divide=None), "scores", "Scores", "", "score", looks(plot.rows)))
    assert whole.count("<svg") == 1
    assert "copy" in parse(whole).words


def test_somebody_s_names_are_text(tmp_path: Path) -> None:
    """Names of schemes, variants and datasets are escaped in titles, cells, notes and contents."""
    name = "<b>&\"'</b><script>"
    add(tmp_path, "rope", 0.9, variant={"note": name})
    add(tmp_path, "rope", 0.9, name=name, fingerprint="a" * 64)
    add(tmp_path, "rope", 0.9, name="plain", fingerprint="b" * 64)
    (made,) = tables_of(tmp_path)
    titled = Table(f"{name} by length", [name], made.columns, made.rows, made.unit)
    text = html_page.page([Section("Scores", [made, titled]), *(Section(t, [titled]) for t in ("By size", "By epoch"))])
    found = parse(text)
    assert text.count("<script") == len(found.own["script"]) == 1
    assert "<b>" not in text
    assert found.words.count(name) >= 7  # a row and a column of two tables, a title twice, and a note, twice
    text = html_page.page([Section(name, [], SVG)], title="<b>{{ title }}</b>", facts=[("<i>", "{{ facts }}</dd>")])
    assert '<section data-view="b-b-script">' in text
    assert not re.search("<b>|<i>", text)
    found = parse(text)
    assert "<b>{{ title }}</b>" in found.words
    assert "{{ facts }}</dd>" in found.words


def test_nothing_but_the_own_script_may_run_and_nothing_is_loaded(tmp_path: Path) -> None:
    """The browser gets a policy that names the digest of the script, so it runs no other one and fetches nothing."""
    add(tmp_path, "rope", 0.9)
    text = html_page.page([Section("Scores", tables_of(tmp_path))])
    (script,) = parse(text).own["script"]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert re.search(r"fetch\(|XMLHttpRequest|import\(|eval\(|innerHTML|localStorage|sendBeacon", script) is None


def test_a_score_tells_its_seeds_and_its_sample(tmp_path: Path) -> None:
    """By hand: 90% and 92% have the mean 91% and the deviation √2. Student's t for one degree of freedom is 12.706."""
    add(tmp_path, "rope", 0.92, 10)  # the names of runs are in the other order
    add(tmp_path, "rope", 0.90, 9)
    add(tmp_path, "none", 0.5, 42)
    (made,) = tables_of(tmp_path)
    sample = "Sample: 1,000 test rows, 10,000 target tokens"
    lines = [
        "Mean 91.00%, standard deviation 1.41%",
        "95% interval of the mean over seeds: 78.29% to 100.00%",
        "Seed 9: 90.00%",
        "Seed 10: 92.00%",
        sample,
    ]
    text = html_page.page([Section("Scores", [made])])
    titles = re.findall('<td data-value="([^"]*)" title="([^"]*)"', text)
    assert titles == [("0.5", f"Seed 42: 50.00%&#10;{sample}"), ("0.91", "&#10;".join(lines))]
    assert 'aria-labelledby="scores-1"' in text
    assert '<table aria-labelledby="scores-1" data-best' not in text
    other = html_page.page([Section("Scores", tables_of(tmp_path, metric="cross_entropy"))])
    assert '<table aria-labelledby="scores-1" data-best="least">' in other


def test_the_head_says_when_by_what_and_from_which_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOURCE_DATE_EPOCH sets the date: 86,400 seconds after the beginning of 1970 is its second day."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    monkeypatch.setattr(html_page, "commit", lambda: "0123456789abcdef+")
    add(tmp_path, "rope", 0.9)
    add(tmp_path, "none", 0.8)
    words = ("report", "--results", str(tmp_path), "--format", "html", "--scheme", "rope")
    first, again = (ape(*words)[0] for _ in range(2))
    assert first == again
    words_of_page = parse(first).words
    for name, value in (
        ("Written", "1970-01-02 00:00 UTC"),
        ("Program", f"ape {ape_cli.__version__}, commit 0123456+"),
        ("Scores", "test split, teacher decoding"),
        ("Filter", "scheme=rope"),
        ("Runs", "1"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in first
        assert name in words_of_page
    (run,) = (path.name for path in (tmp_path / "runs").iterdir() if "rope" in path.name)
    assert f'<tr><th scope="row">{run}</th>' in first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH" in ape(*words, code=2)[1]
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", html_page.written())
