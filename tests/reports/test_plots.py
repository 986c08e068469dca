"""Figures show the numbers of the tables."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from ape_cli.reports import html_page, plots
from ape_cli.reports.palette import looks
from ape_cli.reports.plots import Panel
from ape_cli.reports.tables import Cell
from tests.conftest import ape
from tests.figures import ROWS, TABLE, colour, dotted, drawn, figures, handles, hollow, panel, table, words
from tests.reports.test_aggregation import add


def test_lines_are_the_frame(tmp_path: Path) -> None:
    (axes,) = plots.lines([panel(ROWS)], "token accuracy", "%").axes
    found = drawn(axes)
    assert list(found) == list(ROWS)
    for row, means in ROWS.items():
        assert found[row].get_xdata().tolist() == [10, 20, 30]
        assert found[row].get_ydata().tolist() == pytest.approx([100 * y for y in means])
    assert axes.get_ylabel() == "token accuracy, %"
    assert axes.get_xlabel() == "steps"
    assert axes.get_title(loc="left") == "reverse"
    assert axes.get_ylim() == (20, 100)  # the lowest value is 0.2
    assert list(axes.collections) == []  # one seed has no band
    (axes,) = plots.lines([panel(ROWS)], "cross-entropy", "nats a token").axes
    assert drawn(axes)["rope"].get_ydata().tolist() == ROWS["rope"]
    assert axes.get_ylabel() == "cross-entropy, nats a token"
    assert axes.get_ylim()[0] == 0


def test_a_band_is_the_range_over_seeds_and_a_shaded_area_the_sizes_that_training_saw() -> None:
    (axes,) = plots.lines([panel({"rope": [0.5, 0.6]}, seeds=3, seen=(12, 28))], "token accuracy", "%").axes
    (area,) = axes.patches
    assert (area.get_x(), area.get_x() + area.get_width()) == (11.5, 28.5)  # type: ignore[attr-defined]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert {round(float(y), 6) for x, y in corners if x == 10} == {40, 60}
    assert {round(float(y), 6) for x, y in corners if x == 20} == {50, 70}


def test_four_panels_are_two_by_two() -> None:
    for panels, columns in ((1, 1), (3, 3), (4, 2), (5, 3)):
        axes = plots.lines([panel(ROWS)] * panels, "token accuracy", "%").axes
        grid = axes[0].get_subplotspec()
        assert grid is not None
        assert grid.get_gridspec().ncols == columns


def test_the_test_curve_is_thin_dotted_and_named() -> None:
    """A row has its colour and mark in every panel. Nothing is drawn for a row or a panel without values."""
    tested, plain = panel(ROWS), panel(ROWS, title="copy")
    scores = [0.05, 0.5, 0.6] + [None] * 3 + [0.4, 0.5, 0.7]
    tested = Panel("digits", "steps", tested.lines.with_columns(pl.Series("test", scores, dtype=pl.Float64)))
    figure = plots.lines([tested, plain], "accuracy", "%")
    first, second = figure.axes
    found = dotted(first)
    assert [list(line.get_ydata()) for line in found] == [pytest.approx([5, 50, 60]), pytest.approx([40, 50, 70])]
    for row, line in zip(("none", "rope (decay=0.98)"), found, strict=True):
        assert line.get_linewidth() < drawn(first)[row].get_linewidth()
        assert line.get_markersize() < drawn(first)[row].get_markersize()
        assert (colour(line), line.get_marker()) == looks([row])[row][:2]
    assert dotted(second) == []
    assert first.get_ylim()[0] == 0  # 5% is visible
    assert words(figure) == [*ROWS, "the same row on the test split"]
    assert words(plots.lines([plain], "accuracy", "%")) == list(ROWS)


def test_errors_are_drawn_on_a_log_scale_and_none_is_dropped() -> None:
    """An error is 100 - score. An error of 0 is at the end of the axis."""
    (axes,) = plots.lines(
        [panel({"rope": [0.5, 0.99, 1.0], "none": [1.0, 1.0, 1.0]})], "token accuracy", "%", axis="error"
    ).axes
    assert axes.get_ylabel() == "error, %\n(100 − token accuracy)"
    assert drawn(axes)["rope"].get_ydata().tolist() == pytest.approx([50, 1, 0])
    assert drawn(axes)["none"].get_ydata().tolist() == [0, 0, 0]


def test_a_point_with_few_rows_is_hollow_and_not_connected() -> None:
    """29 rows are few, 30 are not.

    No curve and no band reaches a point with few rows. The range over seeds is a bar.
    """
    rows = {"rope": [0.5, 0.6, 0.7, 0.8, 0.4], "none": [0.2, 0.3, 0.3, 0.3, 0.3]}
    figure = plots.lines([panel(rows, seeds=3, few=[10.0, 40.0])], "token accuracy", "%")
    (axes,) = figure.axes
    for row, points in zip(rows, hollow(axes), strict=True):
        line = drawn(axes)[row]
        assert np.isnan(line.get_ydata()).tolist() == [True, False, False, True, False]
        assert points.get_xdata().tolist() == [10, 40]
        assert points.get_ydata().tolist() == pytest.approx([100 * rows[row][0], 100 * rows[row][3]])
        assert (points.get_linestyle(), points.get_marker(), colour(points)) == (
            "None",
            line.get_marker(),
            colour(line),
        )
    bands = [shape for shape in axes.collections if isinstance(shape, PolyCollection)]
    assert {float(x) for band in bands for path in band.get_paths() for x in path.vertices[:, 0]} == {20, 30}
    bars, _ = (shape.get_segments() for shape in axes.collections if isinstance(shape, LineCollection))
    assert [(bar[0][0], *sorted(bar[:, 1])) for bar in bars] == [
        pytest.approx(expected) for expected in ((10, 40, 60), (40, 70, 90), (50, 30, 50))
    ]
    assert words(figure) == [*rows, "fewer than 30 test rows, not connected", "range over seeds"]
    (sign,) = (h for h in handles(figure) if str(h.get_label()).startswith("fewer"))
    assert (sign.get_markerfacecolor(), sign.get_linestyle()) == ("none", "None")


def test_test_rows_and_tokens_are_written_above_each_point() -> None:
    """All rows of a panel share the limits of training, if they are known."""
    made = panel({"rope": [0.5, 0.6], "none": [0.2, 0.3]}, few=[])
    counted = made.lines.with_columns(
        rows=pl.Series([840, 36, 840, 36]), tokens=pl.Series([13_600, 1_234, 13_600, 1_234])
    )
    figure = plots.lines([Panel(made.title, made.axis, counted, None)], "token accuracy", "%")
    (axes,) = figure.axes
    assert {text.get_position()[0]: text.get_text() for text in axes.texts} == {
        10: "840 / 13,600",
        20: "36 / 1,234",
    }
    assert "above: test rows / target tokens" in words(figure)


def test_bold_is_an_option_of_latex(here: Path) -> None:
    add(here / "results", "rope", 0.5)
    assert "rope & $50.00$" in ape("report", "--bold", "--format", "latex")[0]


def test_a_row_looks_the_same_in_all_figures_of_a_report() -> None:
    """Rows keep their looks although one figure lacks some rows, and two variants want the same mark."""
    many = {f"rope (decay={i})": [0.5, 0.6] for i in range(12)}
    few = dict(list(many.items())[7:])
    made = table({row: [Cell(0.5, None, 1, False, None)] for row in few}, ["reverse"])
    found = figures([made], [panel(many)], [panel(few)], "token_accuracy")
    marks = [{row: str(line.get_marker()) for row, line in drawn(figure.axes[0]).items()} for figure in found.values()]
    assert len(marks) == 3
    assert all(marks[1][row] == found[row] for found in marks for row in few)
    assert {row: str(look.mark) for row, look in looks(few).items()} != marks[0]  # alone, they would have other looks


def test_names_are_drawn_as_they_are() -> None:
    """Titles contain no mathematics and cause no warning about a missing glyph. The user's own style has no effect."""
    with mpl.rc_context({"lines.linewidth": 9, "figure.facecolor": "red", "font.size": 30}):
        figure = plots.lines([panel({"a$b$ (x=猫)": [0.5, 0.6]}, title="$x$ & <y>")], "token accuracy", "%")
        content = plots.encode(figure, "svg")
    assert b"#ff0000" not in content
    (line,) = drawn(figure.axes[0]).values()
    assert line.get_linewidth() == 1.5
    assert figure.axes[0].title.get_parse_math() is False


def test_several_figures_stand_in_one_page() -> None:
    """Ids are unique, every reference is resolved, nothing is fetched, and neutral colours are those of the page."""
    perfect = panel(ROWS | {"tree": [1.0] * 3}, seen=(1, 2), few=[10.0])
    found = figures([TABLE], [perfect], [perfect], "token_accuracy", "error")
    page = "".join(html_page.inline(figure, name, f"{name}, a plot") for name, figure in found.items())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 30
    used = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert set(used) <= set(ids)
    assert page.count("<svg") == page.count('role="img"') == 3
    assert "http" not in page
    assert "<?xml" not in page
    assert "currentColor" in page
    assert "#1b1e21" not in page
    assert page.count("light-dark(#02714b, #8ec4a8)") == page.count("#02714b") > 0
    assert "#ffffff" not in page


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    assert plots.missing() is None
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "[plots]'" in (plots.missing() or "")
