"""The page of a report: it is complete, escaped and self-contained."""

from __future__ import annotations

import re
from pathlib import Path

from ape_cli.reports import html_page
from ape_cli.reports.html_page import Section
from ape_cli.reports.tables import Table
from ape_cli.reports.views import by_epoch, by_size, scores
from tests.reports.test_aggregation import Checker, add, tables_of

SVG = '<svg role="img"><g id="by-size-x"></g></svg>'


class Page(Checker):
    """Collects the tags that are open at the end, and the targets of links."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        for key, value in attrs:
            assert key not in ("src", "onclick", "onload")
            if key == "id":
                self.ids.append(value or "")
            if key == "href":
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
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
        Section("Learning curves", [], "<svg></svg>"),
    ]
    text = html_page.page(sections)
    found = parse(text)
    assert text.count("<svg") == 2
    assert re.search(r"https?:|@import|url\(|<script|<link", text) is None
    assert re.search(r"\b20\d\d\b", text) is None  # no date
    assert "#by-size" in found.links
    assert [x for x in ("Scores", "By size", "Learning curves") if f">{x}</h2>" not in text] == []
    assert "90.00" in found.words
    assert "prefers-color-scheme: dark" in text
    assert text == html_page.page(sections)


def test_captions_say_what_each_sign_means(tmp_path: Path) -> None:
    """Accessible texts are in words, and mention errors only if errors are drawn."""
    add(tmp_path, "rope", 0.9)
    made = tables_of(tmp_path)
    views = (scores.Scores(), by_size.BySize(), by_epoch.ByEpoch())
    sections = [Section(view.title, made, f"<svg>{view.name}</svg>", view.caption) for view in views]
    words = " ".join(parse(html_page.page(sections)).words.split())
    for sign, what in (("solid", "a scheme with its default settings"), ("dashed", "a variant of a scheme")):
        assert words.count(f"A {sign} line is {what}.") == words.count(f"{sign} line") == 3
    assert words.count("A dotted line is the test split") == words.count("dotted") == 1
    assert "A hollow point has fewer than 30 test rows and is not connected to its neighbours." in words
    assert "logarithm" not in words
    words = " ".join(parse(html_page.page(sections, axis="error")).words.split())
    assert words.count("The axis shows the error, 100% less the score, on a logarithmic scale.") == 3


def test_what_is_not_there_has_no_section(tmp_path: Path) -> None:
    add(tmp_path, "rope", 0.9)
    text = html_page.page([Section("Scores", tables_of(tmp_path))], "pip install matplotlib")
    found = parse(text)
    assert text.count("<h2") == 1
    assert "Without plots, which need matplotlib: pip install matplotlib." in found.words
    assert "Without plots" not in html_page.page([Section("Scores", tables_of(tmp_path))])


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
    assert "<script" not in text
    assert "<b>" not in text
    assert found.words.count(name) >= 7  # a row and a column of two tables, a title twice, and a note, twice
