"""The gallery shows every scheme. `tests/nightly/test_gallery.py` compares its pictures."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import position
from tests.conftest import load_file

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "explanation"


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Imports tools/gallery.py, which then writes to an empty folder."""
    module = load_file(ROOT / "tools" / "gallery.py")
    monkeypatch.setattr(module, "PAGES_OF", tmp_path)
    return module


def test_the_page_follows_from_the_code(gallery: ModuleType, tmp_path: Path) -> None:
    gallery.write_page()
    assert (tmp_path / "gallery.md").read_text("utf-8") == (PAGES / "gallery.md").read_text("utf-8")
    assert sorted(path.stem for path in (PAGES / "gallery").iterdir()) == sorted(gallery.pictures())
    assert set(position.names()) - set(gallery.drawable()) <= {"contextual", "forget", "path", "pope", "selective-rope"}
