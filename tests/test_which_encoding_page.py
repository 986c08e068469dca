"""The page docs/results/which-encoding.md is short, and each cell of its table links to its evidence.

`tests/test_results_page.py` checks its numbers, and what it recommends.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.record.scores import PAGES, ROOT

LINES = PAGES["which-encoding"].splitlines()
TABLE = [line.strip("| ").split(" | ") for line in LINES if line.startswith("|")]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as the site makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def test_each_cell_links_to_places_that_exist() -> None:
    assert [row[0] for row in TABLE[2:]] == ["**sequence**", "**tree**", "**grid**", "**product of structures**"]
    for _, *cells in TABLE[2:]:
        for cell in cells:
            links = re.findall(r"\]\(([^)#]+)#([^)]+)\)", cell)
            assert links, cell
            assert len(links) == cell.count("](")
            for path, anchor in links:
                assert anchor in anchors(ROOT / "docs" / "results" / path), (path, anchor)


def test_the_text_beside_the_table_is_short() -> None:
    assert len(" ".join(line for line in LINES if not line.startswith("|")).split()) <= 600
