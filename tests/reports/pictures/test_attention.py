"""Attention weights: a row of heat maps for each layer, a column for each head."""

from __future__ import annotations

import numpy as np

from ape_cli.reports.pictures import HeatMap, Material, load


def test_layers_by_heads() -> None:
    weights = np.arange(2 * 3 * 1 * 2).reshape(2, 3, 1, 2) / 12
    rows = load("attention").panels(Material("a title", weights=weights, tokens=(["sos"], ["a", "b"])))
    assert [[panel.title for panel in row] for row in rows] == [
        [f"layer {layer}, head {head}" for head in (1, 2, 3)] for layer in (1, 2)
    ]
    panel = rows[1][2]
    assert isinstance(panel, HeatMap)
    assert panel.values.tolist() == [[10 / 12, 11 / 12]]
    assert (panel.rows, panel.columns, panel.limit) == (["sos"], ["a", "b"], 11 / 12)
