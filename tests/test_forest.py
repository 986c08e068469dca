"""Figures of findings: what they print, and how they draw intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ape_cli.reports import stats
from results.figures.forest import Block, Cell, Finding, Row, picture
from tests.figures import text_lines


def drawn(cells: Mapping[str, Cell], **settings: Any) -> str:
    return picture(Finding([Block("", [Row("a", {"": cell}) for cell in cells.values()])], "Foot.", **settings))


def test_an_interval_is_student_s() -> None:
    cell = Cell.of([97.0, 98.0, 99.0])
    assert cell.half == pytest.approx(4.302653 / 3**0.5)
    assert cell.half == stats.spread([97.0, 98.0, 99.0])[1]
    assert cell.ends(is_share=True) == (pytest.approx(98 - 4.302653 / 3**0.5), 100)
    assert cell.ends(is_share=False)[1] > 100
    assert Cell.of([1.0]).half is None


def test_a_difference_has_a_sign_and_zero_on_its_scale() -> None:
    texts = text_lines(drawn({"x": Cell(-0.001, 0.1, 3), "y": Cell(30, 1, 3)}, differences=True))
    assert [line[1] for line in texts[:2]] == ["+0.00", "+30.00"]
    assert "0" in texts[2]
