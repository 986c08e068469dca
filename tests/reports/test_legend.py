"""A dotted line in a legend has one meaning."""

from __future__ import annotations

from ape_cli.reports.tables import Cell
from tests.figures import dotted, figures, handles, panel, table


def test_a_dotted_line_is_the_test_split_and_nothing_else() -> None:
    """Legends cover no variants and no neutral lines, in all kinds of figures and on both axes."""
    rows = {f"rope (decay={i})": [0.5, 0.9, 1.0] for i in range(30)}
    made = table({row: [Cell(y, 0.1, 3, False, (0.9, None)) for y in ys] for row, ys in rows.items()}, ["a", "b", "c"])
    by_size, learning = panel(rows, seen=(1, 2), few=[10.0]), panel(rows, seeds=2)
    for axis in ("score", "error"):
        for figure in figures([made], [by_size], [learning], "token_accuracy", axis).values():
            for axes in figure.axes:
                assert dotted(axes) == []
                assert all(line.get_linestyle() != ":" for line in axes.xaxis.get_gridlines())
            assert [h.get_label() for h in handles(figure) if str(h.get_linestyle()) == ":"] == []
