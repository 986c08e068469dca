"""The dots of a plot are the cells of the tables."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.lines import Line2D

from ape_cli.reports.palette import looks
from ape_cli.reports.tables import Cell
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
    assert words(figure) == ["none", "rope", "± one standard deviation over seeds", "the paper's"]


@pytest.mark.parametrize("least", [0.2, 0.05])
def test_a_line_in_the_row_s_style_shows_the_row_of_each_dot(least: float) -> None:
    """So that rows with the same mark can be told apart in grey. If the axis does not begin at 0, the length of a line
    that ends at the dot would look like a score, so all lines are equally long.
    """
    scores = {row: max(least, ys[0]) if number else least for number, (row, ys) in enumerate(ROWS.items())}
    (axes,) = dots(
        [table({row: [Cell(at, None, 1, False, None)] for row, at in scores.items()}, ["copy"])], "score", looks(scores)
    ).axes
    leads = [line for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata())) == 2 and line.get_alpha() == 0.5]
    ends = [[20, 100] if least == 0.2 else [0, 100 * at] for at in scores.values()]
    assert [list(line.get_xdata()) for line in leads] == [pytest.approx(end) for end in ends]
    for line, row in zip(leads, ROWS, strict=True):
        expected = Line2D([], [], linestyle=looks([row])[row].dashes, linewidth=line.get_linewidth())
        assert line._dash_pattern == expected._dash_pattern  # type: ignore[attr-defined]
        assert line.get_linewidth() < drawn(axes)[row].get_linewidth()


def test_too_many_rows_are_no_dots() -> None:
    """The figure would be metres long."""
    cells: list[Cell | None] = [Cell(0.5, None, 1, False, None)]
    for rows, names in ((60, {"scores", "learning-curves"}), (61, {"learning-curves"})):
        made = table({f"x{i}": cells for i in range(rows)}, ["reverse"])
        assert set(figures([made], [], [panel(ROWS)], "token_accuracy")) == names


def test_errors_are_dots_on_a_log_scale_and_none_is_dropped() -> None:
    made = table({"rope": [Cell(0.99, 0.02, 3, True, (0.97, None))], "none": [Cell(1.0, 0.0, 3, True, None)]}, ["copy"])
    figure = dots([made], "error", looks(row for row, _ in made.rows))
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "error, % (100 − token accuracy)")
    zero = dict(zip((text.get_text() for text in axes.get_xticklabels()), axes.get_xticks(), strict=True))["0"]
    assert drawn(axes)["rope"].get_xdata().tolist() == pytest.approx([1])
    assert drawn(axes)["none"].get_xdata().tolist() == [zero]
    (bar,) = [line.get_segments()[0] for line in axes.collections]
    assert sorted(bar[:, 0]) == pytest.approx([zero, 3])  # 99 + 2 is not an error
    assert "an error of 0, which has no logarithm" in words(figure)
