"""The figures of a report: how they are drawn, their axes, and how they are written to files.

A row looks the same in every figure (`palette.looks`). The files have no dates and no random ids, so the same input
gives the same bytes. Figures need matplotlib (the extra `plots`).

Axes are linear axes of scores, or logarithmic axes of errors (1 - score). An axis of errors separates rows whose scores
are all close to 100%. Below the smallest error it is linear, down to an error of 0, which has no logarithm. The axis of
perplexities is logarithmic too, and begins at 1.

Line plots show scores by size and learning curves. Each column of the tables has a panel. A band reaches from the
smallest to the largest score over seeds, or over their 95% interval where x is a multiple of the training size. Above a
panel of scores by size are the numbers of test rows and target tokens behind each point. Shapes: N scores, or points of
a line, x ascending.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from ape_cli.core import escaping
from ape_cli.core.errors import ApeError, UsageError, pick
from ape_cli.core.extras import how_to_install
from ape_cli.core.numbers import spans
from ape_cli.reports import palette
from ape_cli.reports.evaluations import METRICS, measured
from ape_cli.reports.layout import by_column
from ape_cli.reports.palette import Looks, drawing, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")  # file formats by their endings

_METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def missing() -> str | None:
    """How to install matplotlib, or None if it is installed."""
    return None if find_spec("matplotlib") else f"{how_to_install('plots')}, then run the same command again"


def require() -> None:
    """Check that matplotlib is installed. Raises `ApeError` if not."""
    if fix := missing():
        raise ApeError("plots need matplotlib, which is not installed", fix=fix)


@dataclass(frozen=True)
class Plot:
    """A figure that is not drawn yet, with the names of its rows and the number of its lines or dots.

    `draw` takes an axis (one of `plots.KINDS`) and the look of each row. It is None if the figure cannot be drawn, and
    then `note` says why.
    """

    rows: list[str]
    draw: Callable[[str, Looks], Figure] | None
    note: str = ""
    lines: int = 0


def draw_figures(figures: Mapping[str, Plot | None], axis: str = "score") -> dict[str, Figure]:
    """Draw the plots. Returns the figures by the names of their files; plots that cannot be drawn are left out.

    `axis` is one of `plots.KINDS`. A row has the same look in all figures. The rows of plots that are not drawn get a
    look too, so the other rows look the same with and without them. Raises `ApeError` if matplotlib cannot be used.
    """
    require()
    plots = {name: plot for name, plot in figures.items() if plot}
    chosen = looks([row for plot in plots.values() for row in plot.rows])
    return {name: plot.draw(axis, chosen) for name, plot in plots.items() if plot.draw}


def encode(figure: Figure, file_format: str) -> bytes:
    """The content of a file in one of `FORMATS`, with a white background.

    matplotlib names the shapes of an SVG by all digits of their points, and processors differ in the last ones. Shapes
    are numbered instead.
    """
    out = io.BytesIO()
    with drawing():
        figure.savefig(out, format=file_format, metadata=_METADATA[file_format], dpi=200)
    if file_format != "svg":
        return out.getvalue()
    svg = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), out.getvalue().decode())
    svg = _with_classes(re.sub(r"\n\s+<", "\n<", svg))
    for number, name in enumerate(dict.fromkeys(re.findall(r'id="(\w*[0-9a-f]{10})"', svg))):
        svg = svg.replace(name, f"s{number}")
    return svg.encode()


def _with_classes(svg: str) -> str:
    """An SVG file whose repeated styles are classes of its style sheet, so that it is half as large."""
    counts = Counter(re.findall(r' style="([^"]*)"', svg))
    styles = [style for style, count in counts.items() if count > 2]
    for number, style in enumerate(styles):
        svg = svg.replace(f' style="{style}"', f' class="s{number}"')
    sheet = "".join(f".s{number}{{{style}}}\n" for number, style in enumerate(styles))
    return svg.replace("</style>", f"\n{sheet}</style>", 1)


def _shorter(tag: str) -> str:
    """A tag of an SVG element with two decimals in each number, in one line, and with a short list of fonts.

    >>> _shorter("<path d='M 1.23456 2 \\nL 3.5 4.1'/>")
    "<path d='M 1.23 2 L 3.5 4.1'/>"
    """
    tag = re.sub(r"(?<=\.\d\d)\d+| transform=\"rotate\(-0 [^\"]*\"", "", tag)
    tag = re.sub("(?<='DejaVu Sans', )'.*(?=sans-serif)", "", tag)
    return re.sub(r"\s*\n\s*", " ", tag)


KINDS = ("score", "error")
_ROUNDING = 1e-9  # in %; a smaller error counts as 0, because no data has 10^11 tokens


def axis_kind(axis: str | None, metric: str, *, drawn: bool) -> str:
    """The kind of axis, one of `KINDS`. `axis` is the option of the user, and `drawn` is whether there are plots.

    Raises `UsageError` if an axis is given without plots, if it is unknown, or if the metric has no error.
    """
    axis_type = pick("axis", axis or "score", KINDS)
    if axis is not None and not drawn:
        raise UsageError("`axis` applies only to plots", got=f"`axis={axis}`", fix="add `plots=DIR` or `format=html`")
    if axis_type == "error" and not METRICS[metric].is_share:
        what, got = f"{metric} has no error: an error is 100% minus a score in %", f"`axis=error` and `metric={metric}`"
        raise UsageError(what, got=got, fix="leave `axis` out, or choose another `metric`")
    return axis_type


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`, in its unit. An axis of errors is logarithmic from `threshold` on."""

    unit: str  # %, or nats a token; empty for perplexities
    low: float
    high: float
    threshold: float | None = None  # None unless it is an axis of errors

    def of(self, scores: Sequence[float] | np.ndarray) -> np.ndarray:
        """The positions of scores on the axis. scores: fractions, nats or perplexities, [N]. Returns float64 [N]."""
        scores = np.asarray(scores, dtype=float)
        if self.threshold is not None:
            errors = 100 * (1 - scores)
            return np.where(errors <= _ROUNDING, 0.0, errors)
        return 100 * scores if self.unit == "%" else scores if self.unit else np.maximum(scores, self.low)

    def label(self, score: str, then: str = " ") -> str:
        """The axis label. `then` separates the two parts of the label of an error."""
        if self.threshold is not None:
            return f"error, %{then}(100 − {score})"
        return ", ".join(filter(None, (score, self.unit)))

    def put(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set the scale, the limits and the ticks of `axes`."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        scale, axis = getattr(axes, f"set_{which}scale"), getattr(axes, f"{which}axis")
        start = self.low if self.threshold is None else self.threshold
        if self.threshold is not None:
            scale("symlog", linthresh=self.threshold, linscale=0.3)
        elif not self.unit:
            scale("log")
        if axis.get_scale() != "linear":
            logarithmic = LogLocator(subs=(1, 2, 5) if self.high / start < 300 else (1,), numticks=10)
            locator = MaxNLocator(5, steps=[1, 2, 5, 10]) if self.high / start < 5 else logarithmic
            ticks = [tick for tick in locator.tick_values(start, self.high) if start <= tick <= self.high]
            ticks = [0.0] * (self.threshold is not None) + ticks
            axis.set_ticks(ticks, [f"{tick:.6g}" for tick in ticks])
            axis.set_ticks([], minor=True)
        getattr(axes, f"set_{which}lim")(self.low, self.high)


def scale(axis_type: str, unit: str, points: Sequence[float], ends: Sequence[float] = ()) -> Scale:
    """The axis of a type (one of `KINDS`) for the scores `points`. `ends` are the ends of bars.

    The logarithmic part of an axis of errors begins at the power of ten below the smallest error of a point. An axis of
    perplexities begins at 1, which no perplexity is below.
    """
    every = [*points, *ends]
    if axis_type == "error":
        errors = [100 * (1 - score) for score in points]
        smallest = min((error for error in errors if error > _ROUNDING), default=0.1)
        threshold = 10.0 ** math.floor(math.log10(smallest) + 1e-9)
        return Scale("%", 0.0, min(100.0, max(10 * threshold, 110 * (1 - min(every)))), threshold)
    if unit == "%":  # the axis starts at the multiple of 10 below all scores
        return Scale(unit, 10.0 * min(9, max(0, math.floor(10 * min(every)))), 100.0)
    if unit:
        return Scale(unit, 0.0, 1.05 * max(every) or 1.0)
    powers = [math.log10(score) for score in every if 1 <= score < math.inf]  # perplexities above 10^200 are not drawn
    return Scale(unit, 1.0, 10 ** min(200.0, max(0.005, 1.05 * max(powers, default=1.0))))


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

    >>> short("tree-copy/breadth on tree-copy-breadth-longer"), short("copy [copy-sizes-1-4_8-small]")
    ('tree-copy/breadth on longer', 'copy [sizes 1–4, 8, small]')
    >>> short("copy [copy-sizes-1-2-3-4-8-small]")  # as earlier versions named it
    'copy [sizes 1–4, 8, small]'
    """
    begin = re.escape(column.partition(" ")[0].replace("/", "-"))
    column = re.sub(rf"(?<=[ \[]){begin}-(?=\w)", "", column)

    def listed(match: re.Match[str]) -> str:
        numbers = match[1].split("-")
        former = "_" not in match[1] and len(numbers) > 2
        sizes = spans(map(int, numbers)) if former else match[1].replace("_", ", ").replace("-", "–")
        return f"sizes {sizes}" + match[2].replace("-", ", ")

    return re.sub(r"\bsizes-(\d+(?:[-_]\d+)*)(-?)", listed, column)


def plot(panels: list[Panel], metric: str, before: str = "", score: str | None = None) -> Plot | None:
    """The plot of panels, or None without panels.

    before: words before the name of the metric on the y axis. score: the name on this axis if it is not that of the
    metric, because panels have several.
    """
    if not panels:
        return None
    name, unit = measured(metric, itertools.chain.from_iterable(panel.lines["task"].unique() for panel in panels))
    rows, draw = _rows(panels), partial(lines, panels, score or f"{before}{name}", unit)
    return Plot(rows, draw, lines=sum(len(_rows([panel])) for panel in panels))


def _rows(panels: list[Panel]) -> list[str]:
    """The names of all rows in the panels, without repetition."""
    return list(dict.fromkeys(row for panel in panels for row in panel.lines["row"]))


def lines(
    panels: list[Panel], score: str, unit: str, axis: str = "score", chosen: palette.Looks | None = None
) -> Figure:
    """Draw panels in a grid that has three columns, or two for four panels.

    score, unit: the name of y and its unit. axis: one of `plots.KINDS`. chosen: the look of each row, by default that
    of `palette.looks`.
    """
    from matplotlib.figure import Figure

    with palette.drawing():
        across = 2 if len(panels) == 4 else min(3, len(panels))
        down = -(-len(panels) // across)
        chosen = chosen or palette.looks(_rows(panels))
        scores = [panel.lines[name].drop_nulls() for panel in panels for name in ("mean", "least", "most")]
        scores += [test.drop_nulls() for panel in panels if (test := _tested(panel)) is not None]
        upright = scale(axis, unit, list(itertools.chain.from_iterable(scores)))
        counts = [text for panel in panels for text in _counts(panel.lines).values()]
        room = 0.6 * _COUNT_SIZE * max(map(len, counts)) + 6 if counts else None  # a digit is 0.6 of its size wide
        legend = palette.Legend(_explained(panels, chosen), max(across, 2) * palette.PANEL[0])
        titles = [textwrap.fill(escaping.one_line(x.title), _TITLE_WIDTH, break_on_hyphens=False) for x in panels]
        high = palette.PANEL[1] + (room or 0) / 72 + _TITLE_LINE * max(title.count("\n") for title in titles)
        figure = Figure(figsize=(legend.width, down * high + legend.height), layout="constrained")
        grid = figure.add_gridspec(down, across)
        for number, (panel, title) in enumerate(zip(panels, titles, strict=True)):
            axes = figure.add_subplot(grid[divmod(number, across)])
            _curves(axes, panel, upright, chosen)
            axes.set_title(title, pad=room)
            if all(below.axis != panel.axis for below in panels[number + across :][:1]):
                axes.set_xlabel(textwrap.fill(panel.axis, _LABEL_WIDTH))
            if number % across == 0:
                axes.set_ylabel(upright.label(score, "\n"))
            else:
                axes.tick_params(labelleft=False)
        legend.put(figure)
    return figure


def _explained(panels: list[Panel], chosen: palette.Looks) -> list[Any]:
    """The handles of the legend: all rows, and each other sign in the figure."""
    handles = [palette.line(escaping.one_line(name), **chosen[name].style) for name in _rows(panels)]
    if any(_tested(panel) is not None for panel in panels):
        handles.append(palette.line("the same row on the test split", **palette.DOTTED))
    if any(_few(panel.lines).any() for panel in panels):
        handles.append(palette.line(f"fewer than {FEW} test rows, not connected", marker="o", **palette.HOLLOW))
    if any(_counts(panel.lines) for panel in panels):
        handles.append(palette.line("above: test rows / target tokens", linestyle="none"))
    if any(panel.seen for panel in panels):
        handles.append(palette.area("sizes seen in training", color=palette.INK, alpha=_SEEN, linewidth=0))
    if any(_spread(panel.lines).any() for panel in panels):
        over_seeds = "95% interval over seeds" if panels[0].multiples else "range over seeds"
        handles.append(palette.area(over_seeds, color=palette.INK, alpha=_RANGE, linewidth=0))
    if any(panel.lines["low_over_rows"].count() for panel in panels if panel.multiples):
        handles.append(palette.line("95% interval over inputs", linestyle="none", marker="|", markersize=9))
    return handles


def _tested(panel: Panel) -> pl.Series | None:
    """The scores on the test split, or None if the panel has none."""
    test = panel.lines["test"] if "test" in panel.lines.columns else None
    return None if test is None or test.is_null().all() else test


def _spread(lines: pl.DataFrame) -> pl.Series:
    """Which points have a band: bool [N]."""
    return lines["least"] < lines["most"]


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
            points = curve.drop_nulls("low_over_rows")
            low, mean, high = (upright.of(points[x].to_numpy()) for x in ("low_over_rows", "mean", "high_over_rows"))
            bars: dict[str, Any] = {"fmt": "none", "ecolor": chosen[str(row)].colour, "elinewidth": 0.7, "capsize": 2}
            axes.errorbar(points["x"].to_numpy(), mean, yerr=[abs(mean - low), abs(high - mean)], **bars)
    style: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "bottom"}
    for x, text in _counts(panel.lines).items():
        axes.text(x, 1.04, text, fontsize=_COUNT_SIZE, color=palette.INK, **style)
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
    return {x: f"{rows:,} / {tokens:,}" for x, rows, tokens in at.iter_rows()}


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
    if _spread(curve).any():
        ends = upright.of(curve["least"].to_numpy()), upright.of(curve["most"].to_numpy())
        beside = np.concatenate([[True], few, [True]])  # a point without a neighbour has a bar in place of a band
        alone = few | (beside[:-2] & beside[2:])
        axes.fill_between(x, *ends, where=~alone, color=look.colour, alpha=0.18, linewidth=0)
        if alone.any():
            axes.vlines(x[alone], ends[0][alone], ends[1][alone], color=look.colour, alpha=0.5, linewidth=1)
