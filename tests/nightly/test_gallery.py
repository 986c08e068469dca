"""Every picture of the gallery follows from the code. If this fails, run `make docs`."""

from __future__ import annotations

import pytest

from tools import gallery


@pytest.mark.parametrize("name", gallery.pictures())
def test_the_picture_of_a_scheme_follows_from_the_code(name: str) -> None:
    made = gallery.draw(name)
    assert made == (gallery.FOLDER / f"{name}.svg").read_bytes()
    assert len(made) < 80_000
