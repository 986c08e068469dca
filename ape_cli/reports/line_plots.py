"""Line plots of scores by size and of learning curves. Each column of the tables has a panel.

A band reaches from the smallest to the largest score over seeds. Above a panel of scores by size are the numbers of
test rows and target tokens behind each point. Shapes: N points of a line, x ascending.
"""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ape_cli.core import escaping
from ape_cli.core.numbers import spans
from ape_cli.reports import palette
from ape_cli.reports.evaluations import measured
from ape_cli.reports.layout import by_column
from ape_cli.reports.plots import Pieces, Plot, Scale, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 30  # test rows; a point with fewer rows is hollow and not connected to its neighbours
_SEEN, _RANGE = 0.09, 0.25  # opacities
_COUNT_SIZE = 5  # font size of the counts above a panel, in points
_APART = 0.036  # the least distance of two counts, as a part of the panel's width, so that they do not overlap
_TITLE_WIDTH, _TITLE_LINE = 36, 0.2  # characters in a line of a title; height of a line in inches
_LABEL_WIDTH = 42  # characters in a line of the label of an x axis


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    `lines` has the columns task, row, scheme, x, mean, least, most and seeds. Rows are in the order of the tables, and
    x is ascending. `least` and `most` are the smallest and the largest score over seeds. Learning curves also have
    `test`, the mean on the test split, which is null unless every seed has one. Scores by size also have `rows`, the
    number of test rows that each seed was scored on at this point. With `multiples`, x is a multiple of the largest
    size in training, `least` and `most` are the ends of the 95% interval over seeds, and the lines have that over rows,
    `low_over_rows` to `high_over_rows`.
    """

    title: str
    axis: str  # the label of the x axis, with its unit
    lines: pl.DataFrame
    seen: tuple[float, float] | None = None  # the smallest and the largest x in the training split
    areas: Sequence[tuple[float, float]] = ()  # the parts of `seen` that are in the training split; empty: all of it
    multiples: bool = False


def split(lines: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Split lines from `layout.label`, with x, into the panels of a plot, each with a title and its lines.

    A title is the name of the column in the tables with short names of datasets, and the preset if there are several.
    """
    panels = [panel.sort("rank", "x") for panel in by_column(lines)]
    return [(short(panel["column"][0]) + panel["of_preset"][0], panel) for panel in panels]


def short(column: str) -> str:
    """The name of a column, in which names of datasets do not repeat its task, and listed sizes are ranges.

    >>> short("tree-copy/breadth on tree-copy-breadth-longer"), short("copy [copy-sizes-1-2-3-4-8-small]")
    ('tree-copy/breadth on longer', 'copy [sizes 1–4, 8, small]')
    >>> short("copy [copy-sizes-2-4]")
    'copy [sizes 2, 4]'
    """
    begin = re.escape(column.partition(" ")[0].replace("/", "-"))
    column = re.sub(rf"(?<=[ \[]){begin}-(?=\w)", "", column)

    def listed(found: re.Match[str]) -> str:
        return f"sizes {spans(map(int, found[1].split('-')))}" + found[2].replace("-", ", ")

    return re.sub(r"\bsizes-(\d+(?:-\d+)*)(-?)", listed, column)


def plot(panels: list[Panel], metric: str, before: str = "", score: str | None = None) -> Plot | None:
    """The plot of panels, or None without panels.

    before: words before the name of the metric on the y axis. score: the name on this axis if it is not that of the
    metric, because panels have several.
    """
    if not panels:
        return None
    name, unit = measured(metric, itertools.chain.from_iterable(panel.lines["task"].unique() for panel in panels))
    drawn = panels, score or f"{before}{name}", unit
    rows = [_rows([panel]) for panel in panels]
    return Plot(_rows(panels), partial(lines, *drawn), divide=partial(divided, *drawn), panels=rows)


def _rows(panels: list[Panel]) -> list[str]:
    """The names of all rows in the panels, without repetition."""
    return list(dict.fromkeys(row for panel in panels for row in panel.lines["row"]))


def lines(
    panels: list[Panel], score: str, unit: str, axis: str = "score", chosen: palette.Looks | None = None
) -> Figure:
    """Draw panels in a grid that has three columns.

    score, unit: the name of y and its unit. axis: one of `plots.KINDS`. chosen: the look of each row, by default that
    of `palette.looks`.
    """
    from matplotlib.figure import Figure

    with palette.drawing():
        across = min(3, len(panels))
        down = -(-len(panels) // across)
        chosen = chosen or palette.looks(_rows(panels))
        upright = _upright(panels, axis, unit)
        counts = [text for panel in panels for text in _counts(panel.lines).values()]
        room = 0.6 * _COUNT_SIZE * max(map(len, counts)) + 6 if counts else None  # a digit is 0.6 of its size wide
        legend = palette.Legend(_explained(panels, chosen, upright), max(across, 2) * palette.PANEL[0])
        titles = [textwrap.fill(escaping.one_line(x.title), _TITLE_WIDTH, break_on_hyphens=False) for x in panels]
        high = palette.PANEL[1] + (room or 0) / 72 + _TITLE_LINE * max(title.count("\n") for title in titles)
        figure = Figure(figsize=(legend.width, down * high + legend.height), layout="constrained")
        grid = figure.add_gridspec(down, across)
        for number, (panel, title) in enumerate(zip(panels, titles, strict=True)):
            axes = figure.add_subplot(grid[divmod(number, across)])
            _curves(axes, panel, upright, chosen)
            axes.set_title(title, pad=room)
            if all(below.axis != panel.axis for below in panels[number + across :][:1]):
                axes.set_xlabel(_label(panel))
            if number % across == 0:
                axes.set_ylabel(upright.label(score, "\n"))
            else:
                axes.tick_params(labelleft=False)
        legend.put(figure)
    return figure


def divided(
    panels: list[Panel], score: str, unit: str, axis: str, chosen: palette.Looks, wanted: Sequence[int]
) -> Pieces:
    """Draw each of the `wanted` panels as a figure of its own, without its title and the counts below the tables.

    The other arguments are those of `lines`.
    """
    from matplotlib.figure import Figure

    with palette.drawing():
        panels = [replace(panels[i], lines=panels[i].lines.drop("tokens", strict=False)) for i in wanted]
        upright, drawn = _upright(panels, axis, unit), []
        margins = {_label(panel).count("\n"): palette.Margins() for panel in panels}
        for panel in panels:
            figure = Figure(figsize=palette.PANEL)
            axes = figure.add_subplot()
            _curves(axes, panel, upright, chosen)
            axes.set(xlabel=_label(panel), ylabel=upright.label(score, "\n"))
            margins[_label(panel).count("\n")].put(figure)
            drawn.append((escaping.one_line(panel.title), figure))
        return drawn, _explained(panels, chosen, upright)


def _upright(panels: list[Panel], axis: str, unit: str) -> Scale:
    """The y axis of all panels."""
    scores = [panel.lines[name].drop_nulls() for panel in panels for name in ("mean", "least", "most")]
    scores += [test.drop_nulls() for panel in panels if (test := _tested(panel)) is not None]
    return scale(axis, unit, list(itertools.chain.from_iterable(scores)))


def _explained(panels: list[Panel], chosen: palette.Looks, upright: Scale) -> list[Any]:
    """The handles of the legend: all rows, and each other sign in the figure."""
    handles = [palette.line(escaping.one_line(name), **chosen[name].style) for name in _rows(panels)]
    if any(_tested(panel) is not None for panel in panels):
        handles.append(palette.line("the same row on the test split", **palette.DOTTED))
    if any(_few(panel.lines).any() for panel in panels):
        handles.append(palette.line(f"fewer than {FEW} test rows, not connected", marker="o", **palette.HOLLOW))
    if any(_counts(panel.lines) for panel in panels):
        handles.append(palette.line("above: test rows / target tokens", linestyle="none"))
    if upright.edge is not None:
        handles.append(palette.zero_errors())
    if any(panel.seen for panel in panels):
        handles.append(palette.area("sizes seen in training", color=palette.INK, alpha=_SEEN, linewidth=0))
    if any((panel.lines["seeds"] > 1).any() for panel in panels):
        over_seeds = "95% interval over seeds" if panels[0].multiples else "range over seeds"
        handles.append(palette.area(over_seeds, color=palette.INK, alpha=_RANGE, linewidth=0))
    if any(_over_rows(panel.lines).height for panel in panels if panel.multiples):
        handles.append(palette.line("95% interval over inputs", linestyle="none", marker="|", markersize=9))
    return handles


def _tested(panel: Panel) -> pl.Series | None:
    """The scores on the test split, or None if the panel has none."""
    test = panel.lines["test"] if "test" in panel.lines.columns else None
    return None if test is None or test.is_null().all() else test


def _over_rows(lines: pl.DataFrame) -> pl.DataFrame:
    """The points that have an interval over rows."""
    return lines.drop_nulls("low_over_rows")


def _few(lines: pl.DataFrame) -> np.ndarray:
    """Which points have fewer than `FEW` test rows: bool [N].

    They are all False if the number of rows is not known, as for learning curves.
    """
    if "rows" not in lines.columns:
        return np.zeros(lines.height, dtype=bool)
    return (lines["rows"] < FEW).to_numpy()


def _curves(axes: Axes, panel: Panel, upright: Scale, chosen: palette.Looks) -> None:
    """Draw one panel without its title."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    beside = 0.0 if panel.multiples else 0.5
    for first, last in panel.areas or ([panel.seen] if panel.seen else []):
        axes.axvspan(first - beside, last + beside, color=palette.INK, alpha=_SEEN, linewidth=0, zorder=0)
    for (row,), curve in panel.lines.drop("by_seed", strict=False).group_by("row", maintain_order=True):
        _curve(axes, str(row), curve, upright, chosen[str(row)], tested=_tested(panel) is not None)
        if panel.multiples:
            known = _over_rows(curve)
            low, mean, high = (upright.of(known[x].to_numpy()) for x in ("low_over_rows", "mean", "high_over_rows"))
            bars: dict[str, Any] = {"fmt": "none", "ecolor": chosen[str(row)].colour, "elinewidth": 0.7, "capsize": 2}
            axes.errorbar(known["x"].to_numpy(), mean, yerr=[abs(mean - low), abs(high - mean)], **bars)
    if upright.edge is not None:
        axes.axhspan(upright.low, upright.edge, zorder=0, **palette.ZERO)
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "bottom"}
    for x, text in _counts(panel.lines).items():
        axes.text(x, 1.04, text, fontsize=_COUNT_SIZE, color=palette.INK, **place)
    axes.grid(visible=True, axis="y")
    steps = [1, 2, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=steps) if panel.multiples else MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}×" if panel.multiples else "{x:,.0f}"))
    upright.put(axes, "y")


def _counts(lines: pl.DataFrame) -> dict[float, str]:
    """The numbers of test rows and target tokens behind each point, by x. All lines of a panel share them.

    It is empty if they are not known, as for learning curves, or if they would overlap.
    """
    if not {"rows", "tokens"} <= set(lines.columns):
        return {}
    at = lines.unique("x", maintain_order=True).select("x", "rows", "tokens").sort("x")
    apart = at["x"].diff().min()
    if apart is not None and apart / (at["x"][-1] - at["x"][0]) < _APART:
        return {}
    return {x: f"{_short(rows)} / {_short(tokens)}" for x, rows, tokens in at.iter_rows()}


def _label(panel: Panel) -> str:
    """The label of the x axis, in lines that do not reach into the next panel."""
    return textwrap.fill(panel.axis, _LABEL_WIDTH)


def _short(count: int) -> str:
    """A count in short form, for example `840` or `14k`."""
    return f"{count:,}" if count < 10_000 else f"{count / 1000:,.0f}k"


def _curve(axes: Axes, row: str, curve: pl.DataFrame, upright: Scale, look: palette.Look, *, tested: bool) -> None:
    """Draw the curve of a row: points, the range over seeds, and the test split if it was scored.

    Filled points are connected, and hollow points are not.
    """
    x, mean, few = curve["x"].to_numpy(), upright.of(curve["mean"].to_numpy()), _few(curve)
    marks: dict[str, Any] = {"color": look.colour, "marker": look.mark, "clip_on": False}
    every = -(-x.size // 16)
    axes.plot(x, np.where(few, math.nan, mean), label=row, linestyle=look.dashes, markevery=every, **marks)
    if few.any():
        axes.plot(x[few], mean[few], **marks, **palette.HOLLOW)
    if tested:
        test = upright.of(curve["test"].cast(pl.Float64).fill_null(math.nan).to_numpy())
        axes.plot(x, test, markevery=every, **marks, **palette.DOTTED)
    if (curve["seeds"] > 1).any():
        ends = upright.of(curve["least"].to_numpy()), upright.of(curve["most"].to_numpy())
        beside = np.concatenate([[True], few, [True]])  # a point without a neighbour has a bar in place of a band
        alone = few | (beside[:-2] & beside[2:])
        axes.fill_between(x, *ends, where=~alone, color=look.colour, alpha=0.18, linewidth=0)
        if alone.any():
            axes.vlines(x[alone], ends[0][alone], ends[1][alone], color=look.colour, alpha=0.5, linewidth=1)
