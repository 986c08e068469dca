"""The scores from one node: that node is the query."""

from __future__ import annotations

import numpy as np
import pytest

from ape_cli.core.errors import UsageError
from ape_cli.reports.pictures import Diagram, load
from tests.reports.pictures.material import line, made, subject

TREE = subject("tree(2)", np.arange(18).reshape(2, 3, 3), depth=1)


@pytest.mark.parametrize(("node", "query", "values"), [(None, 1, [7.5, 8.5, 9.5]), (2, 2, [10.5, 11.5, 12.5])])
def test_numbers_are_those_of_a_query_there(node: int | None, query: int, values: list[float]) -> None:
    ((found,),) = load("nodes").panels(made(TREE, node=node))
    assert isinstance(found, Diagram)
    assert found.values.tolist() == values  # means of rows of 0..8 and 9..17
    assert found.node == query
    assert found.title == f"keys seen from a query at {query + 1}"


def test_what_has_no_drawing_is_an_error() -> None:
    with pytest.raises(UsageError, match="no drawing of its nodes"):
        load("nodes").panels(made(line()))
