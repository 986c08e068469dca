"""Every picture of the gallery follows from the code. If this fails, run `make docs`."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_gallery import PAGES

NAMES = sorted(path.stem for path in (PAGES / "gallery").iterdir())  # those of all schemes, as a quick test checks


def content(path: Path) -> str:
    """A picture with its shapes numbered. matplotlib names them by all digits of their points, which processors share
    only up to the last ones."""
    text = path.read_text("utf-8")
    names = list(dict.fromkeys(re.findall(r'id="(m[0-9a-f]{10})"', text)))
    return re.sub(r"\bm[0-9a-f]{10}\b", lambda found: f"m{names.index(found[0])}", text)


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_of_a_scheme_follows_from_the_code(name: str, gallery: ModuleType, tmp_path: Path) -> None:
    gallery.draw(name)
    made = tmp_path / "gallery" / f"{name}.svg"
    assert content(made) == content(PAGES / "gallery" / f"{name}.svg")
    assert made.stat().st_size < 80_000
