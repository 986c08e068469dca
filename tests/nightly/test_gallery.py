"""Every picture of the gallery follows from the code, byte for byte. If this fails, run `make docs`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.test_gallery import PAGES

NAMES = sorted(path.stem for path in (PAGES / "gallery").iterdir())  # those of all schemes, as a quick test checks


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_of_a_scheme_follows_from_the_code(name: str, gallery: ModuleType, tmp_path: Path) -> None:
    gallery.draw(name)
    made = (tmp_path / "gallery" / f"{name}.svg").read_bytes()
    assert made == (PAGES / "gallery" / f"{name}.svg").read_bytes()
    assert len(made) < 80_000
