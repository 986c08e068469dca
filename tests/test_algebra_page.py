"""The tables of `docs/explanation/algebra.md` are what is measured. `tests/nightly/` compares its figure."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import position
from tests.conftest import load_file

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "explanation"


@pytest.fixture
def tool() -> ModuleType:
    """Imports tools/algebra.py."""
    return load_file(ROOT / "tools" / "algebra.py")


def test_the_tables_follow_from_measurements(tool: ModuleType) -> None:
    """If this fails, run `make docs` and commit the page. It takes 3 seconds, because it measures all schemes."""
    page = (PAGES / tool.PAGE).read_text("utf-8")
    new = tool.written(page)
    assert new == page
    assert all(f"\n| `{name}` |" in new for name in position.names())
    assert new.count(f"\n{tool.END}\n") == 2
