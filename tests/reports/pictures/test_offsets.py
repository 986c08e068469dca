"""The mean score by offset, worked out by hand."""

from __future__ import annotations

from ape_cli.reports.pictures import Curve, load
from tests.reports.pictures.material import line, made


def test_means_by_hand() -> None:
    """The first head has the scores 11 21 31, 12 22 32 and 13 23 33, with queries as rows. The second has 0."""
    ((curve,),) = load("offsets").panels(made(line()))
    assert isinstance(curve, Curve)
    assert curve.x.tolist() == [-2, -1, 0, 1, 2]  # key - query
    assert curve.high.tolist() == [13, (12 + 23) / 2, 22, (21 + 32) / 2, 31]
    assert curve.low.tolist() == [0] * 5
    assert curve.mean.tolist() == [x / 2 for x in curve.high]
    assert (curve.heads, curve.y_range) == (2, (0, 31))
    assert (curve.x_label, curve.y_label) == ("offset, key - query", "score: added to the logit")


def test_two_curves_have_one_axis() -> None:
    ((before, after),) = load("offsets").panels(made(line("before"), line("after", -2.0)))
    assert isinstance(before, Curve)
    assert isinstance(after, Curve)
    assert before.y_range == after.y_range == (-62, 31)
    assert (before.title, after.title) == ("mean by offset, before", "mean by offset, after")
