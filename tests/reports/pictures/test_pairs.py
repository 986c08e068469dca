"""The heat map of pairs: queries are rows, and a number is the mean over heads."""

from __future__ import annotations

from ape_cli.reports.pictures import HeatMap, load
from tests.reports.pictures.material import line, made


def test_a_row_is_a_query() -> None:
    ((found,),) = load("pairs").panels(made(line()))
    assert isinstance(found, HeatMap)
    assert found.values.tolist() == [[5.5, 10.5, 15.5], [6, 11, 16], [6.5, 11.5, 16.5]]
    assert (found.limit, found.rows, found.columns) == (16.5, ["1", "2", "3"], ["1", "2", "3"])
