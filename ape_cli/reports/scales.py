"""The axes of figures: linear axes of scores, and logarithmic axes of errors (1 - score).

An axis of errors separates rows whose scores are all close to 100%. An error of 0 has no logarithm. Points with an
error of 0 are drawn at a tick "0", in a strip below the end of the logarithmic scale. Shapes: N scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ape_cli.core.errors import UsageError, pick
from ape_cli.reports.evaluations import SMALLER_IS_BETTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("score", "error")
_ROUNDING = 1e-9  # in %; a smaller error counts as 0, because no data has 10^11 tokens


def kind_of(asked: str | None, metric: str, *, drawn: bool) -> str:
    """The kind of axis, one of `KINDS`. `asked` is the option of the user, and `drawn` is whether there are plots.

    Raises `UsageError` if an axis is given without plots, if it is unknown, or if the metric has no error.
    """
    kind = pick("axis", asked or "score", KINDS)
    if asked is None:
        return kind
    if not drawn:
        raise UsageError("--axis is for plots", got=f"--axis {asked}", fix="add --plots DIR or --format html")
    if kind == "error" and metric in SMALLER_IS_BETTER:
        raise UsageError(
            f"{metric} has no error: an error is 100% minus a score in %",
            got=f"--axis error --metric {metric}",
            fix="leave --axis out, or choose another --metric",
        )
    return kind


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`, in its unit.

    On an axis of errors, `edge` is the end of the logarithmic scale and `zero` the place of an error of 0. Both are
    None if no point has an error of 0.
    """

    unit: str  # %, or nats a token
    low: float
    high: float
    error: bool = False
    edge: float | None = None
    zero: float | None = None

    @property
    def begins_at_zero(self) -> bool:
        """Whether the axis begins at a score of 0, so that lengths from its beginning can be compared."""
        return self.low == 0 and not self.error

    def of(self, scores: Sequence[float] | np.ndarray) -> np.ndarray:
        """The positions of scores on the axis. scores: fractions or nats, [N]. Returns float64 [N].

        A bar that is longer than an axis of errors is cut.
        """
        given = np.asarray(scores, dtype=float)
        if not self.error:
            return 100 * given if self.unit == "%" else given
        errors = 100 * (1 - given)
        start = self.low if self.edge is None else self.edge
        at = np.maximum(errors, start)
        return np.where(errors > _ROUNDING, at, self.low if self.zero is None else self.zero) + 0 * given  # keeps NaN

    def label(self, score: str, then: str = " ") -> str:
        """The axis label. `then` separates the two parts of the label of an error."""
        return f"error, %{then}(100 − {score})" if self.error else f"{score}, {self.unit}"

    def put(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set the scale, the limits and the ticks of `axes`."""
        from matplotlib.ticker import NullFormatter

        if self.error:
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
        """Ticks with a number, and ticks without. Powers of ten have one, on a short axis also 2 and 5 times those."""
        start = self.edge or self.low
        powers = range(math.floor(math.log10(start)), math.ceil(math.log10(self.high)) + 1)
        steps = [float(f"{digit}e{power}") for power in powers for digit in range(1, 10)]
        within = [step for step in steps if start * 0.999 <= step <= self.high * 1.001]
        numbered = {"1", "2", "5"} if self.high / start < 300 else {"1"}
        major = [step for step in within if f"{step:e}"[0] in numbered]
        return major, [step for step in within if step not in major]


def scale(kind: str, unit: str, points: Sequence[float], ends: Sequence[float] = ()) -> Scale:
    """The axis of a kind (one of `KINDS`) for the scores `points`. `ends` are the ends of bars.

    An axis of errors cuts a bar whose end is less than a tenth of the smallest error.
    """
    if kind == "error":
        return _of_errors(points, ends)
    every = [*points, *ends]
    if unit == "%":  # the axis starts at the multiple of 10 below all scores
        return Scale(unit, 10.0 * min(9, max(0, math.floor(10 * min(every)))), 100.0)
    return Scale(unit, 0.0, 1.05 * max(every) or 1.0)


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
