"""Every picture of the gallery follows from the code, byte for byte. If this fails, run `make docs`."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ape_cli import position
from tests.test_gallery import PAGES


@pytest.mark.parametrize("name", position.names())
def test_the_picture_of_a_scheme_follows_from_the_code(name: str, gallery: ModuleType, tmp_path: Path) -> None:
    gallery.draw(name)
    made = (tmp_path / "gallery" / f"{name}.svg").read_bytes()
    assert made == (PAGES / "gallery" / f"{name}.svg").read_bytes()
    assert len(made) < 80_000
