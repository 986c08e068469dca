"""The figure of `docs/explanation/algebra.md` follows from measurements. If this fails, run `make docs`."""

from __future__ import annotations

from tests.conftest import load_file
from tests.test_algebra_page import PAGES, ROOT


def test_the_figure_follows_from_measurements() -> None:
    tool = load_file(ROOT / "tools" / "algebra.py")
    made = tool.draw()
    assert made == (PAGES / tool.FIGURE).read_bytes()
    assert len(made) < 200_000
