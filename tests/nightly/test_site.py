"""The documentation site in a browser: no page is wider than a telephone, and names of options are not divided."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

# the texts of elements that have more than one line
LINES = """selector => [...document.querySelectorAll(selector)]
    .filter(name => name.getClientRects().length && name.offsetHeight > 30).map(name => name.textContent)"""


def test_pages_on_a_telephone(tmp_path: Path, browser: Any) -> None:
    """`--n-validation ROWS` in a table and `--length` in a text are in one line, at 390 pixels."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    subprocess.run([sys.executable, "-m", "zensical", "build"], cwd=tmp_path, capture_output=True, check=True)
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    for name in ("reference/commands", "reference/settings", "explanation/schemes", "guides/draw"):
        page.goto((tmp_path / "site" / name / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.locator("td:first-child code").count() > 5, name
        assert page.evaluate(LINES, "td:first-child code") == [], name
    assert [code for code in page.evaluate(LINES, "p > code") if " " not in code] == []
    context.close()
