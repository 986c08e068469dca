"""Helpers that make panels and tables to draw, and that read what a drawn figure contains."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ape_cli.reports import plots
from ape_cli.reports.plots import Panel
from ape_cli.reports.tables import Cell, Table
from ape_cli.reports.views.scores import dot_plot


def panel(
    rows: dict[str, list[float]],
    *,
    seeds: int = 1,
    seen: tuple[int, int] | None = None,
    few: list[float] | None = None,
    **names: str,
) -> Panel:
    """Makes a panel with one line for each row, at x = 10, 20, ….

    With several seeds, `least` and `most` are 0.1 below and above the mean, up to 1. Points whose x is in `few` have 29
    rows of data, the others 30; without `few` the panel has no counts of rows.
    """
    beside = 0.1 * (seeds > 1)
    lines = [
        {"task": "reverse", "row": row, "x": 10.0 * i, "mean": y, "least": y - beside, "most": min(1, y + beside)}
        | {"seeds": seeds}
        | ({} if few is None else {"rows": 29 if 10.0 * i in few else 30})
        for row, means in rows.items()
        for i, y in enumerate(means, 1)
    ]
    return Panel(names.get("title", "reverse"), names.get("axis", "steps"), pl.DataFrame(lines), seen)


def table(rows: dict[str, list[Cell | None]], columns: list[str]) -> Table:
    return Table("Sequence tasks, token accuracy", [], columns, list(rows.items()), "%")


def figures(
    tables: list[Table], by_size: list[Panel], learning: list[Panel], metric: str, axis: str = "score"
) -> dict[str, Figure]:
    """Returns the figures of a report. Each row has the same colour and marker in all of them."""
    wanted = {
        "scores": dot_plot(tables),
        "by-size": plots.plot(by_size, metric),
        "learning-curves": plots.plot(learning, metric, "validation "),
    }
    return plots.draw_figures(wanted, axis)


def drawn(axes: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.get_lines() if not str(line.get_label()).startswith("_")}


def colour(line: Any) -> str:
    return colors.to_hex(line.get_color())


def handles(figure: Figure) -> list[Any]:
    """Returns the handles of the legend."""
    (legend,) = figure.legends
    return list(legend.legend_handles)


def words(figure: Figure) -> list[str]:
    """Returns the texts of the legend."""
    return [str(handle.get_label()) for handle in handles(figure)]


def dotted(axes: Axes) -> list[Any]:
    """Returns the visible dotted lines."""
    lines = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    return [line for line in lines if not np.isnan(np.asarray(line.get_ydata(), dtype=float)).all()]


def hollow(axes: Axes) -> list[Any]:
    return [line for line in axes.get_lines() if line.get_markerfacecolor() == "none"]


def text_lines(svg: str) -> list[list[str]]:
    """The texts of an SVG file line by line, from top to bottom and from left to right."""
    texts = sorted((float(y), float(x), text) for x, y, text in _TEXT.findall(svg))
    found: list[list[tuple[float, str]]] = []
    last = -10.0
    for y, x, text in texts:
        if y > last + 2:
            found.append([])
        found[-1].append((x, text))
        last = y
    return [[text for _, text in sorted(line)] for line in found]


_TEXT = re.compile(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')
ROWS = {"none": [0.3, 0.3, 0.4], "rope": [0.2, 0.7, 0.9], "rope (decay=0.98)": [0.5, 0.6, 0.7]}
TABLE = table(
    {
        "none": [Cell(0.3, 0.05, 3, False, None), None],
        "rope": [Cell(0.9, 0.1, 3, True, (0.97, 0.008)), Cell(0.8, None, 1, True, None)],
    },
    ["reverse", "copy"],
)
