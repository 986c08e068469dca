"""The overview: offsets, pairs and nodes in one row, with the same colours."""

from __future__ import annotations

import numpy as np

from ape_cli.reports.pictures import Curve, Diagram, HeatMap, load
from tests.reports.pictures.material import line, made, subject


def test_nodes_are_shown_if_they_can_be_drawn() -> None:
    ((curve, pairs, nodes),) = load("overview").panels(
        made(subject("tree(2)", np.arange(18).reshape(2, 3, 3), depth=1))
    )
    assert isinstance(curve, Curve)
    assert isinstance(pairs, HeatMap)
    assert isinstance(nodes, Diagram)
    assert pairs.limit == nodes.limit == 12.5
    assert [len(row) for row in load("overview").panels(made(line()))] == [2]
