"""The page of a report in a browser: Chromium without a window, and axe-core for accessibility.

These tests need the packages playwright and axe-playwright-python, and Chromium (`conftest.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ape_cli.reports.html_page import Section, page
from ape_cli.reports.tables import Table
from tests.conftest import ape
from tests.reports.test_aggregation import add
from tests.reports.test_views import fill

SCORES = {"rope": 0.9, "none": 0.5, "sinusoidal": 0.7, "alibi": 1.0}  # the first table, one seed each
TABLE = "section:not([hidden]) table >> nth=0"


def written(where: Path) -> Path:
    """Writes a page with every view, of runs of several tasks."""
    fill(where)
    for scheme, value in SCORES.items():
        add(where, scheme, value, preset="medium")
    ape("report", "--results", str(where), "--out", str(where / "page.html"))
    return where / "page.html"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"))


class Opened:
    """A page in a browser, with what went wrong and what it asked for."""

    def __init__(self, browser: Any, file: Path, scheme: str = "light", width: int = 1280, script: bool = True) -> None:
        size = {"width": width, "height": 800}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=script)
        self.context.set_default_timeout(5_000)
        self.page = self.context.new_page()
        self.file = file
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert self.errors == []
            assert {url.partition("#")[0] for url in self.requests} == {self.file.as_uri()}

    def rows(self) -> list[str]:
        """The visible rows of the first table, by their names."""
        return [name.inner_text() for name in self.page.locator(f"{TABLE} >> tbody tr th").all() if name.is_visible()]

    def headings(self) -> list[str]:
        """The visible titles of sections."""
        return [title.inner_text() for title in self.page.locator("h2").all() if title.is_visible()]

    def choose(self, name: str, value: str) -> None:
        self.page.locator(f"input[name={name}][value='{value}']").check(force=True)

    def colour(self) -> str:
        """The colour of the background."""
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def violations(self) -> list[str]:
        """What axe-core reports as serious or critical, over all sections at once and with the details of a score."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.evaluate("document.querySelectorAll('section').forEach((section) => (section.hidden = false))")
        self.page.locator("td[tabindex]").first.focus()
        found = Axe().run(self.page).response["violations"]
        return [f"{v['id']}: {v['nodes'][0]['html']}" for v in found if v["impact"] in ("serious", "critical")]


def sort(opened: Opened, column: int) -> str:
    """Clicks on a header of the first table. Returns its `aria-sort`."""
    header = opened.page.locator(f"{TABLE} >> thead th >> nth={column}")
    header.locator("button").click()
    return str(header.get_attribute("aria-sort"))


def test_rows_are_sorted_by_click_and_by_key(browser: Any, file: Path) -> None:
    with Opened(browser, file) as opened:
        first = opened.rows()
        best = sorted(SCORES, key=lambda scheme: -SCORES[scheme])
        assert first != best
        assert (sort(opened, 1), opened.rows()) == ("descending", best)
        assert (sort(opened, 1), opened.rows()) == ("ascending", best[::-1])
        assert (sort(opened, 1), opened.rows()) == ("none", first)
        opened.page.keyboard.press("Enter")  # the header has the focus
        assert opened.rows() == best
        opened.page.keyboard.press("Shift+Tab")
        opened.page.keyboard.press("Space")
        assert opened.rows() == sorted(SCORES)
        order = [header.get_attribute("aria-sort") for header in opened.page.locator(f"{TABLE} >> thead th").all()]
        assert order[:2] == ["ascending", "none"]


def test_intervals_are_sorted_by_their_lower_ends(browser: Any, tmp_path: Path) -> None:
    intervals = {"b": "[-3.50, -0.50]", "a": "[-20.00, 1.00]", "c": "[+1.00, +2.00]"}
    table = Table("Differences", [], ["interval"], [(name, [text]) for name, text in intervals.items()], "%")
    (tmp_path / "page.html").write_text(page([Section("Scores", [table])]))
    with Opened(browser, tmp_path / "page.html") as opened:
        assert (sort(opened, 1), opened.rows()) == ("ascending", ["a", "b", "c"])


def test_rows_are_filtered(browser: Any, file: Path) -> None:
    with Opened(browser, file) as opened:
        everything = opened.rows()
        field = opened.page.get_by_label("Filter rows").locator("visible=true").first
        status = opened.page.locator("section:not([hidden]) [role=status]").first
        for words, rows, told in (
            ("ROPE", ["rope"], "1 of 4 rows"),
            ("o", ["none", "rope", "sinusoidal"], "3 of 4 rows"),
            ("o 70.00", ["sinusoidal"], "1 of 4 rows"),
            ("nothing", [], "0 of 4 rows"),
        ):
            field.fill(words)
            assert (sorted(opened.rows()), status.inner_text()) == (rows, told)
        field.fill("")
        assert (opened.rows(), status.inner_text()) == (everything, "")


def test_details_of_a_score_with_the_mouse_and_with_the_keyboard(browser: Any, file: Path) -> None:
    with Opened(browser, file) as opened:
        page, details = opened.page, opened.page.get_by_role("tooltip")
        assert not details.is_visible()
        cell = page.locator(f"{TABLE} >> td[data-details] >> nth=0")
        cell.hover()
        row = cell.locator("xpath=..").locator("th").inner_text()
        sample = "Sample: 1,000 test rows, 10,000 target tokens"
        assert details.inner_text() == f"Seed 1: {SCORES[row]:.2%}\n{sample}"
        assert cell.get_attribute("aria-describedby") == details.get_attribute("id")
        page.mouse.move(5, 5)
        assert not details.is_visible()
        cell.focus()
        page.keyboard.press("ArrowDown")
        assert details.inner_text() == f"Seed 1: {SCORES[opened.rows()[1]]:.2%}\n{sample}"
        page.keyboard.press("Escape")
        assert not details.is_visible()


def test_metrics_and_views_are_switched(browser: Any, file: Path) -> None:
    with Opened(browser, file) as opened:
        assert opened.headings() == ["Scores: accuracy"]
        opened.choose("metric", "exact_match")
        assert opened.headings() == ["Scores: exact match"]
        assert opened.page.url.endswith("#scores-exact-match")
        assert opened.page.locator("input[value=by-epoch], input[value=learning-curves]").is_disabled()
        for view, title in (("by-size", "By size"), ("by-operator", "By operator")):
            opened.choose("view", view)
            assert opened.headings() == [f"{title}: exact match"]
            assert opened.page.locator("section:not([hidden]) h3").first.inner_text().endswith("exact match")
        opened.choose("metric", "token_accuracy")
        opened.choose("view", "learning-curves")
        assert opened.headings() == ["Learning curves: accuracy"]
        opened.choose("view", "runs")
        assert opened.headings() == ["Runs"]
        assert all(opened.page.locator("input[name=metric]").nth(i).is_disabled() for i in range(2))
        assert len(opened.rows()) == 16  # two schemes with two seeds each on three tasks, and four of the first table
        opened.page.evaluate("location.hash = '#by-size-cross-entropy'")
        opened.page.wait_for_function("document.querySelector('input[value=by-size]').checked")
        assert opened.headings() == ["By size: cross-entropy"]


def test_colours_follow_the_system_and_the_switch(browser: Any, file: Path) -> None:
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}
    for scheme, other in (("light", "dark"), ("dark", "light")):
        with Opened(browser, file, scheme) as opened:
            assert opened.colour() == colours[scheme]
            opened.choose("theme", other)
            assert opened.colour() == colours[other]
            opened.choose("theme", "")
            assert opened.colour() == colours[scheme]


def test_nothing_serious_hinders_anybody(browser: Any, file: Path) -> None:
    """axe-core reports nothing serious or critical, and only tables and figures scroll sideways."""
    for scheme, width in (("light", 1280), ("dark", 390)):
        with Opened(browser, file, scheme, width) as opened:
            assert opened.violations() == []
            assert opened.page.evaluate("document.documentElement.scrollWidth") == width


def test_without_a_script_everything_is_shown(browser: Any, file: Path) -> None:
    """There are all sections and links to them, and no switch that does nothing."""
    with Opened(browser, file, script=False) as opened:
        assert len(opened.headings()) == opened.page.locator("h2").count() > 10
        assert opened.page.locator("nav a").first.is_visible()
        assert opened.page.locator("button, input").locator("visible=true").count() == 0
