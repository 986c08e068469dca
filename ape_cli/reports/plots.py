"""The figures of a report: how they are drawn, their axes, and how they are written to files.

A row looks the same in every figure (`palette.looks`). The files have no dates and no random ids, so the same input
gives the same bytes. Figures need matplotlib (the extra `plots`).

Axes are linear axes of scores, or logarithmic axes of errors (1 - score). An axis of errors separates rows whose scores
are all close to 100%. An error of 0 has no logarithm. Points with an error of 0 are drawn at a tick "0", in a strip
below the end of the logarithmic scale. The axis of perplexities is logarithmic too, and begins at 1. Shapes: N scores.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ape_cli.core.errors import ApeError, UsageError, error_text, pick
from ape_cli.core.extras import how_to_install
from ape_cli.reports.evaluations import METRICS
from ape_cli.reports.palette import Looks, drawing, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE_STYLES = "A solid line is a row named by its scheme alone. A dashed line is a row with a longer name."
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
    """Check that matplotlib is installed and can be imported. Raises `ApeError` if not."""
    if fix := missing():
        raise ApeError("plots need matplotlib, which is not installed", fix=fix)
    try:
        import_module("matplotlib.figure")
    except Exception as error:  # it reads settings, for example an unknown backend in MPLBACKEND
        fix = "correct its settings (MPLBACKEND, matplotlibrc), or install it again"
        raise ApeError("plots need matplotlib, which cannot be imported", got=error_text(error), fix=fix) from error


Pieces: TypeAlias = "tuple[list[tuple[str, Figure]], list[Any]]"  # panels with their titles; handles of a legend


@dataclass(frozen=True)
class Plot:
    """A figure that is not drawn yet, with the names of its rows.

    `draw` and `divide` take an axis (one of `plots.KINDS`) and the look of each row. `draw` is None if the figure
    cannot be drawn, and then `note` says why. `divide` draws the same figure in pieces, as an HTML page shows it: small
    figures, each with a title, and handles for one legend. It also takes the numbers of the panels that are wanted;
    `panels` has the names of the rows of each. Without it, the page has the figure in one piece.
    """

    rows: list[str]
    draw: Callable[[str, Looks], Figure] | None
    note: str = ""
    divide: Callable[[str, Looks, Sequence[int]], Pieces] | None = None
    panels: Sequence[Sequence[str]] = ()


def draw_figures(figures: Mapping[str, Plot | None], axis: str = "score") -> dict[str, Figure]:
    """Draw the plots. Returns the figures by the names of their files; plots that cannot be drawn are left out.

    `axis` is one of `plots.KINDS`. A row has the same look in all figures. The rows of plots that are not drawn get a
    look too, so the other rows look the same with and without them. Raises `ApeError` if matplotlib cannot be used.
    """
    require()
    plots = {name: plot for name, plot in figures.items() if plot}
    chosen = looks([row for plot in plots.values() for row in plot.rows])
    return {name: plot.draw(axis, chosen) for name, plot in plots.items() if plot.draw}


def encode(figure: Figure, kind: str) -> bytes:
    """The content of a file in one of `FORMATS`, with a white background."""
    out = io.BytesIO()
    with drawing():
        figure.savefig(out, format=kind, metadata=_METADATA[kind], dpi=200)
    if kind != "svg":
        return out.getvalue()
    svg = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), out.getvalue().decode())
    return _with_classes(re.sub(r"\n\s+<", "\n<", svg)).encode()


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
_MOST_POWERS = 14  # of ten with a number on an axis; a token of 10^11 is an error of 10^-9%
_ROUNDING = 1e-9  # in %; a smaller error counts as 0, because no data has 10^11 tokens


def axis_kind(axis: str | None, metric: str, *, drawn: bool) -> str:
    """The kind of axis, one of `KINDS`. `axis` is the option of the user, and `drawn` is whether there are plots.

    Raises `UsageError` if an axis is given without plots, if it is unknown, or if the metric has no error.
    """
    kind = pick("axis", axis or "score", KINDS)
    if axis is not None and not drawn:
        raise UsageError("`axis` applies only to plots", got=f"`axis={axis}`", fix="add `plots=DIR` or `format=html`")
    if kind == "error" and not METRICS[metric].is_share:
        what, got = f"{metric} has no error: an error is 100% minus a score in %", f"`axis=error` and `metric={metric}`"
        raise UsageError(what, got=got, fix="leave `axis` out, or choose another `metric`")
    return kind


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`, in its unit.

    On an axis of errors, `edge` is the end of the logarithmic scale and `zero` the place of an error of 0. Both are
    None if no point has an error of 0.
    """

    unit: str  # %, or nats a token; empty for perplexities
    low: float
    high: float
    error: bool = False
    edge: float | None = None
    zero: float | None = None

    def of(self, scores: Sequence[float] | np.ndarray) -> np.ndarray:
        """The positions of scores on the axis. scores: fractions, nats or perplexities, [N]. Returns float64 [N].

        A bar that is longer than a logarithmic axis is cut.
        """
        scores = np.asarray(scores, dtype=float)
        if not self.error:
            return 100 * scores if self.unit == "%" else scores if self.unit else np.maximum(scores, self.low)
        errors = 100 * (1 - scores)
        start = self.low if self.edge is None else self.edge
        at = np.maximum(errors, start)
        return np.where(errors > _ROUNDING, at, self.low if self.zero is None else self.zero) + 0 * scores  # keeps NaN

    def label(self, score: str, then: str = " ") -> str:
        """The axis label. `then` separates the two parts of the label of an error."""
        return f"error, %{then}(100 − {score})" if self.error else ", ".join(filter(None, (score, self.unit)))

    def put(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set the scale, the limits and the ticks of `axes`."""
        from matplotlib.ticker import NullFormatter

        if self.error or not self.unit:
            getattr(axes, f"set_{which}scale")("log")
            major, minor = self._ticks()
            words = [f"{tick:g}" for tick in major]
            if self.zero is not None:
                major, words = [self.zero, *major], ["0", *words]
            axis = getattr(axes, f"{which}axis")
            axis.set_ticks(major, words)
            axis.set_ticks(minor, minor=True)
            axis.set_minor_formatter(NullFormatter())
        getattr(axes, f"set_{which}lim")(self.low, self.high)

    def _ticks(self) -> tuple[list[float], list[float]]:
        """Ticks with a number, and ticks without. Powers of ten have one, on a short axis also 2 and 5 times those.

        On a very short axis, they are as on a linear axis. On a very long one, only some powers of ten have a number.
        """
        from matplotlib.ticker import MaxNLocator

        start = self.edge or self.low
        if self.high / start < 5:
            places = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(start, self.high)
            return [float(place) for place in places if start <= place <= self.high], []
        powers = range(math.floor(math.log10(start)), math.ceil(math.log10(self.high)) + 1)
        if len(powers) > _MOST_POWERS:
            return [10.0**power for power in powers[:: -(-len(powers) // _MOST_POWERS)]], []
        steps = [float(f"{digit}e{power}") for power in powers for digit in range(1, 10)]
        within = [step for step in steps if start * 0.999 <= step <= self.high * 1.001]
        numbered = {"1", "2", "5"} if self.high / start < 300 else {"1"}
        major = [step for step in within if f"{step:e}"[0] in numbered]
        return major, [step for step in within if step not in major]


def scale(kind: str, unit: str, points: Sequence[float], ends: Sequence[float] = ()) -> Scale:
    """The axis of a kind (one of `KINDS`) for the scores `points`. `ends` are the ends of bars.

    An axis of errors cuts a bar whose end is less than a tenth of the smallest error. An axis of perplexities begins at
    1, which no perplexity is below.
    """
    if kind == "error":
        return _of_errors(points, ends)
    every = [*points, *ends]
    if unit == "%":  # the axis starts at the multiple of 10 below all scores
        return Scale(unit, 10.0 * min(9, max(0, math.floor(10 * min(every)))), 100.0)
    if unit:
        return Scale(unit, 0.0, 1.05 * max(every) or 1.0)
    powers = [math.log10(score) for score in every if 1 <= score < math.inf]  # infinite perplexities are not drawn
    return Scale(unit, 1.0, 10 ** min(300.0, max(0.005, 1.05 * max(powers, default=1.0))))


def _of_errors(points: Sequence[float], ends: Sequence[float]) -> Scale:
    """An axis of errors, from below the smallest positive error to above the largest error. Both include bars.

    Each end is one of … 1, 2, 5, 10, 20 …
    """
    errors = [min(100.0, 100 * (1 - score)) for score in (*points, *ends)]
    some = [error for error in errors[: len(points)] if error > _ROUNDING]
    least = min(some, default=0.1)
    near = [error for error in errors[len(points) :] if error > least / 10]  # a bar extends the axis at most tenfold
    edge = _nice(min([least, *near]), up=False)
    high = max(_nice(max(*errors, edge), up=True), 10 * edge)
    if len(some) == len(points):
        return Scale("%", edge, high, error=True)
    strip = (high / edge) ** 0.16  # a factor; the strip is about an eighth of the axis
    return Scale("%", edge / strip, high, error=True, edge=edge, zero=edge / strip**0.6)


def _nice(value: float, *, up: bool) -> float:
    """The nearest of … 1, 2, 5, 10, 20 … that is not below a positive value (`up`), or not above it.

    >>> _nice(0.034, up=False), _nice(0.034, up=True), _nice(20.0, up=True), _nice(86, up=True)
    (0.02, 0.05, 20.0, 100.0)
    """
    power = math.floor(math.log10(value))
    steps = [float(f"{digit}e{p}") for p in range(power - 1, power + 2) for digit in (1, 2, 5)]
    if up:
        return next(step for step in steps if step >= value * (1 - 1e-9))
    return next(step for step in reversed(steps) if step <= value * (1 + 1e-9))
