"""Before and after training: curves above heat maps, in this order."""

from __future__ import annotations

from ape_cli.reports.pictures import HeatMap, load
from tests.reports.pictures.material import line, made


def test_before_is_to_the_left() -> None:
    kind = load("training")
    curves, maps = kind.panels(made(line("before training"), line("after training", 2.0)))
    assert [panel.title for panel in curves] == ["mean by offset, before training", "mean by offset, after training"]
    assert [panel.values[0, 0] for panel in maps if isinstance(panel, HeatMap)] == [5.5, 11]
    assert kind.needs == "training"
