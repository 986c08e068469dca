"""The page of a report: it is complete, escaped and self-contained."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

import ape_cli
from ape_cli.reports import html_page
from ape_cli.reports.html_page import PageFigure, Section
from ape_cli.reports.tables import Table
from tests.conftest import ape
from tests.reports.test_aggregation import add, tables_of

SVG = PageFigure(Markup('<svg role="img"><g id="by-size-x"></g></svg>'), "")


class Page(HTMLParser):
    """Collects the tags that are open at the end, the targets of links, scripts and styles, and the visible words."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.own: dict[str, list[str]] = {"script": [], "style": []}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "input"}:
            self.open.append(tag)
        for key, value in attrs:
            assert key not in ("src", "srcset", "action", "background", "poster", "data", "ping")
            assert not key.startswith("on")
            if key == "id":
                self.ids.append(value or "")
            if key == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

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


def test_tables_and_plots_in_one_page_that_needs_nothing(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.9)
    made = tables_of(tmp_path)
    sections = [
        Section("Scores", made),
        Section("By size", made, SVG),
        Section("By operator", []),
        Section("Learning curves", [], PageFigure(Markup("<svg></svg>"), "")),
    ]
    text = html_page.page(sections)
    found = parse(text)
    assert text.count("<svg") == 2
    assert re.search(r"https?:|@import|url\(|<link|<iframe|<object", text) is None
    assert "#by-size" in found.links
    assert "90.00" in found.words
    assert text == html_page.page(sections)
    text = html_page.page([Section("Scores", made)], missing="pip install matplotlib")
    assert (
        "There are no plots, because matplotlib is not installed. To add them: pip install matplotlib."
        in parse(text).words
    )


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
    text = html_page.page([Section("Scores", tables_of(tmp_path))])
    cells = dict(re.findall(r'<th scope="row">(\w+)</th><td data-details="([^"]*)">', text))
    sample = "Sample: 1,000 test rows, 10,000 target tokens"
    assert cells["rope"].splitlines() == [
        "Mean 91.00%, standard deviation 1.41%",
        "95% interval of the mean over seeds: 78.29% to 100.00%",
        "Seed 9: 90.00%",
        "Seed 10: 92.00%",
        sample,
    ]
    assert cells["none"].splitlines() == ["Seed 42: 50.00%", sample]


def test_the_head_says_when_by_what_and_from_which_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOURCE_DATE_EPOCH sets the date: 86,400 seconds after the beginning of 1970 is its second day."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    monkeypatch.setattr(html_page, "commit", lambda: "0123456789abcdef+")
    add(tmp_path, "rope", 0.9)
    add(tmp_path, "none", 0.8)
    words = ("report", "--results", str(tmp_path), "--format", "html", "--scheme", "rope")
    first, again = (ape(*words)[0] for _ in range(2))
    assert first == again
    for name, value in (
        ("Written", "1970-01-02 00:00 UTC"),
        ("Program", f"ape {ape_cli.__version__}, commit 0123456+"),
        ("Filter", "scheme=rope"),
        ("Runs", "1"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in first
    (run,) = (path.name for path in (tmp_path / "runs").iterdir() if "rope" in path.name)
    assert f'<tr><th scope="row">{run}</th>' in first
