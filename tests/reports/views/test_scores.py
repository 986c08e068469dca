"""The dots of a plot are the cells of the tables."""

from __future__ import annotations

import pytest

from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Cell, Table
from ape_cli.reports.views.scores import dots
from tests.figures import ROWS, TABLE, colour, drawn, figures, hollow, panel, table, words


def test_dots_are_the_cells() -> None:
    figure = dots([TABLE], "score", looks(ROWS))
    (axes,) = figure.axes
    found = drawn(axes)
    assert found["rope"].get_xdata() == pytest.approx([90, 80])
    assert found["none"].get_xdata() == pytest.approx([30])
    for row in found.values():  # each dot is within half a step of its column
        assert all(abs(y - round(y)) < 0.5 for y in row.get_ydata())
    assert [round(y) for y in found["rope"].get_ydata()] == [0, 1]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["reverse", "copy"]
    bars = [line.get_segments()[0] for line in axes.collections]
    assert [(bar[0][0], bar[1][0]) for bar in bars] == [pytest.approx((25, 35)), pytest.approx((80, 100))]
    (paper,) = [line for line in axes.get_lines() if line.get_marker() == "|"]
    assert list(paper.get_xdata()) == pytest.approx([97])
    assert colour(paper) == colour(found["rope"])
    assert hollow(axes) == []  # that is a point with few rows
    assert axes.get_xlabel() == "token accuracy, %"
    assert words(figure) == ["none", "rope", "± one standard deviation over seeds", "published"]


def test_each_table_has_its_unit() -> None:
    """Losses of sequences and of images share an axis, and each label has the unit of its table."""
    cells: list[tuple[str, list[Cell | str | None]]] = [("rope", [Cell(0.5, None, 1, False, None)])]
    units = ["nats a token", "nats an image"]
    made = [Table("Losses, cross-entropy", [], ["copy"], cells, unit) for unit in units]
    axes = dots(made, "score", looks(["rope"])).axes
    assert [one.get_xlabel() for one in axes] == [f"cross-entropy, {unit}" for unit in units]


def test_too_many_rows_are_no_dots() -> None:
    """The figure would be metres long."""
    cells: list[Cell | None] = [Cell(0.5, None, 1, False, None)]
    for rows, names in ((60, {"scores", "learning-curves"}), (61, {"learning-curves"})):
        made = table({f"x{i}": cells for i in range(rows)}, ["reverse"])
        assert set(figures([made], [], [panel(ROWS)], "token_accuracy")) == names
