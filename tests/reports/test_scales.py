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
    """95% and 99.97% are errors of 5% and 0.03%, on an axis from 0.02 to 5."""
    made = scale("error", "%", [0.95, 0.9997])
    assert made.of([0.95, 0.9997]).tolist() == pytest.approx([5, 0.03])
    assert (made.low, made.high, made.edge, made.zero) == (pytest.approx(0.02), pytest.approx(5), None, None)
    assert made.label("token accuracy") == "error, % (100 − token accuracy)"
    axes = on_axes(made)
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"]
    assert np.isnan(made.of([np.nan, 0.95])).tolist() == [True, False]


def test_an_error_of_0_has_a_place_of_its_own() -> None:
    """Zero is below all other points, on a tick "0" beyond the end of the logarithmic scale.

    No other point is there.
    """
    made = scale("error", "%", [1.0, 0.9999, 0.5])
    assert made.edge == pytest.approx(0.01)
    assert made.zero is not None
    assert made.edge is not None
    assert 0 < made.low < made.zero < made.edge
    assert made.of([1.0, 0.9999, 0.5]).tolist() == pytest.approx([made.zero, 0.01, 50])
    axes = on_axes(made)
    ticks = dict(zip((text.get_text() for text in axes.get_yticklabels()), axes.get_yticks(), strict=True))
    assert ticks == pytest.approx({"0": made.zero, "0.01": 0.01, "0.1": 0.1, "1": 1, "10": 10})
    assert min(axes.yaxis.get_minorticklocs()) > made.edge
    strip, whole = np.log(made.edge / made.low), np.log(made.high / made.low)
    assert 0.1 < strip / whole < 0.2
    # sums of ratios may differ from 1 by a rounding error; one token of a billion is an error
    assert made.of([1 - 1e-16, 1 + 1e-16]).tolist() == [made.zero, made.zero]
    assert scale("error", "%", [1 - 1e-9, 0.5]).zero is None


def test_a_bar_is_cut_where_the_axis_ends_and_never_moves_its_ends() -> None:
    """For a mean of 99% ± 2, errors are from 3% down to nothing. No room is made for a 0 that no score has."""
    made = scale("error", "%", [0.99, 0.995], [0.97, 1.01])
    assert (made.zero, made.low, made.high) == (None, pytest.approx(0.5), pytest.approx(5))
    assert made.of([0.97, 1.01, 0.9999]).tolist() == pytest.approx([3, 0.5, 0.5])
    with_zero = scale("error", "%", [0.99, 1.0], [0.97, 1.01])
    assert with_zero.of([1.01, 0.9999]).tolist() == [with_zero.zero, with_zero.edge]
    wide = scale("error", "%", [0.1, 0.995], [-0.2])
    assert wide.high == 100


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
    """Without an infinite perplexity, which has no place on it."""
    for points, ticks in (
        ([1.003, 1.01], ["1", "1.005", "1.01"]),
        ([1.0], ["1", "1.005", "1.01"]),
        ([1.5, 3.9], ["1", "2", "3", "4"]),
        ([2.0, np.inf], ["1", "1.5", "2"]),
        ([np.inf], ["1", "2", "5", "10"]),
    ):
        made = scale("score", "", points)
        assert [text.get_text() for text in on_axes(made).get_yticklabels()] == ticks
    labels = [text.get_text() for text in on_axes(scale("score", "", [1e300])).get_yticklabels()]
    assert labels[:2] == ["1", "1e+22"]
    assert len(labels) == 14
