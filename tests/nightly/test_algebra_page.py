"""The figure of `docs/explanation/algebra.md` follows from measurements. If this fails, run `make docs`."""

from __future__ import annotations

from tools import algebra


def test_the_figure_follows_from_measurements() -> None:
    made = algebra.draw()
    assert made == algebra.FIGURE.read_bytes()
    assert len(made) < 200_000
