"""Axes of scores and of errors: the place of scores, the ends of an axis, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from ape_cli.reports.plots import Scale, scale


def on_axes(made: Scale) -> Any:
    axes = Figure().add_subplot()
    made.put(axes, "y")
    return axes


def test_scores_from_the_multiple_of_ten_below_them() -> None:
    percent = scale("score", "%", [0.35, 0.9], [0.28])
    assert (percent.low, percent.high) == (20, 100)
    assert percent.of([0.35, 1.0]).tolist() == [35, 100]
    assert percent.label("token accuracy") == "token accuracy, %"
    nats = scale("score", "nats a token", [0.5, 2.0])
    assert (nats.low, nats.high) == (0, 2.1)
    assert nats.of([0.5]).tolist() == [0.5]
    assert on_axes(percent).get_yscale() == "linear"


def test_errors_are_what_is_missing_to_100() -> None:
    """95% and 99.97% are errors of 5% and 0.03%. The axis is logarithmic from 0.01 on, and ends at an error of 0.

    Sums of ratios may differ from 1 by a rounding error; one token of a billion is an error.
    """
    made = scale("error", "%", [0.95, 0.9997], [0.94, 1.01])
    assert made.of([0.95, 0.9997, 1.0, 1 - 1e-16, 1 + 1e-16, 1.01]).tolist() == pytest.approx([5, 0.03, 0, 0, 0, 0])
    assert (made.low, made.high, made.threshold) == (0, pytest.approx(6.6), pytest.approx(0.01))
    assert made.label("token accuracy") == "error, % (100 − token accuracy)"
    axes = on_axes(made)
    assert axes.get_yscale() == "symlog"
    ticks = {text.get_text(): y for text, y in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    assert ticks == {name: pytest.approx(float(name)) for name in ticks}
    assert {"0", "0.01", "0.1", "1"} <= ticks.keys()
    assert np.isnan(made.of([np.nan, 0.95])).tolist() == [True, False]
    assert scale("error", "%", [1 - 1e-9, 1.0]).of([1 - 1e-9])[0] > 0
    assert scale("error", "%", [0.1, 0.995], [-0.2]).high == 100


def test_perplexities_begin_at_1_on_a_logarithmic_axis() -> None:
    """A bar is cut there. The ends of bars extend the axis at its other end."""
    made = scale("score", "", [1.2, 9.0], [0.4, 64.0])
    assert (made.low, made.high) == (1, pytest.approx(64**1.05))
    assert made.of([0.4, 1.2, np.nan])[:2].tolist() == [1, 1.2]
    assert np.isnan(made.of([np.nan])[0])
    assert made.label("perplexity per token") == "perplexity per token"
    axes = on_axes(made)
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "2", "5", "10", "20", "50"]


def test_ticks_of_a_short_and_of_a_long_logarithmic_axis() -> None:
    """An infinite perplexity has no place on it."""
    for points in ([1.003, 1.01], [1.0], [1.5, 3.9], [2.0, np.inf], [np.inf], [1e300]):
        labels = [text.get_text() for text in on_axes(scale("score", "", points)).get_yticklabels()]
        assert 2 <= len(set(labels)) == len(labels) <= 14, points
