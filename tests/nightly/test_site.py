"""The documentation site in a browser: no page is wider than a telephone, and names of options are not divided."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.interpreters import ROOT, python

# the texts of elements that have more than one line
LINES = """selector => [...document.querySelectorAll(selector)]
    .filter(name => name.getClientRects().length && name.offsetHeight > 30).map(name => name.textContent)"""


def test_pages_on_a_telephone(tmp_path: Path, browser: Any) -> None:
    """`--n-validation ROWS` in a table and `--length` in a text are in one line, at 390 pixels."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    python("-m", "zensical", "build", where=tmp_path)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    reference = [
        f"reference/{name}" for name in ("commands", "settings", "schemes", "tasks/addition", "python/position")
    ]
    for name in (*reference, "explanation/schemes", "guides/draw"):
        page.goto((tmp_path / "site" / name / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.locator("td:first-child code").count() > 5, name
        assert page.evaluate(LINES, "td:first-child code") == [], name
    assert [code for code in page.evaluate(LINES, "p > code") if " " not in code] == []
    context.close()
