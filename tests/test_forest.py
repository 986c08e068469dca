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


def test_numbers_of_seeds_that_differ_are_printed() -> None:
    texts = text_lines(drawn({"few": Cell(50, 2, 2), "most": Cell(60, 1, 3), "one": Cell(70, None, 1)}))
    assert [line[1] for line in texts[:3]] == ["50.00 ×2", "60.00", "70.00 ×1"]
    foot = " ".join(line[0] for line in texts[4:])
    assert foot == (
        "Mark: mean, over 3 seeds (×n: over n). Bar: 95% interval over seeds by Student's t, cut off at 0 and 100; "
        "one seed has none. Foot."
    )


def test_a_difference_has_a_sign_and_zero_on_its_scale() -> None:
    texts = text_lines(drawn({"x": Cell(-0.001, 0.1, 3), "y": Cell(30, 1, 3)}, differences=True))
    assert [line[1] for line in texts[:2]] == ["+0.00", "+30.00"]
    assert "0" in texts[2]


def test_an_interval_of_two_seeds_beyond_the_scale_ends_in_an_arrow() -> None:
    """Each mark and each arrow is a path of its own that is used once."""
    wide, narrow = (drawn({"x": Cell(30, half, 2), "y": Cell(20, 1, 3)}, differences=True) for half in (200, 1))
    assert wide.count("<use ") == narrow.count("<use ") + 2


def test_a_figure_has_the_colours_of_both_pages() -> None:
    svg = drawn({"x": Cell(30, 1, 3)})
    light, dark = svg.split("@media (prefers-color-scheme: dark)")
    for colour, on_dark in (("#ffffff", "#0d1117"), ("#1b1e21", "#d9dee4")):
        assert f"fill: {colour}" in light
        assert f"fill: {on_dark}" in dark.split("</style>")[0]
        assert colour not in dark
    assert "style=" not in svg


def test_columns_have_the_given_order() -> None:
    rows = [Row("a", {"second": Cell(1, 1, 3)}), Row("b", {"first": Cell(1, 1, 3), "last": Cell(1, 1, 3)})]
    assert Block("", rows, ("first", "none", "second")).columns == ["first", "second", "last"]
    assert Block("", rows).columns == ["second", "first", "last"]
