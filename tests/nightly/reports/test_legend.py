"""The legends of every kind of figure cover nothing, which drawing each figure shows."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ape_cli import position
from ape_cli.reports.tables import Cell
from tests.figures import figures, panel, table


@pytest.mark.parametrize("axis", ["score", "error"])
@pytest.mark.parametrize("long", ["", " (batch_size=32, convolution_size=1, max_size=64, wwwwwwwwwwwww=1)"])
def test_the_legend_covers_nothing_and_is_within_the_figure(axis: str, long: str) -> None:
    rows = {f"{name}{long}": [0.5, 0.6, 1.0] for name in position.names()}
    made = table({row: [Cell(y, 0.1, 3, False, (0.9, None)) for y in ys] for row, ys in rows.items()}, ["a", "b", "c"])
    by_size = [panel(rows, seen=(1, 2), seeds=2, few=[10.0], title=f"task {i}") for i in range(2)]
    for figure in figures([made], by_size, [panel(rows)], "token_accuracy", axis).values():
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()  # draws the figure, which computes its layout
        (legend,) = figure.legends
        box = legend.get_window_extent()
        for axes in figure.axes:
            area = axes.get_tightbbox()
            assert area is not None
            assert not box.padded(-2).overlaps(area)  # within its padding the legend is empty
            assert figure.bbox.x0 <= area.x0 < area.x1 <= figure.bbox.x1 + 1
            assert area.y1 <= figure.bbox.y1 + 1
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
