"""The rule of the page `maps`, on made-up scores whose effects are worked out by hand."""

from __future__ import annotations

import pytest

from results import maps
from results.maps import ENCODINGS, MAPS, Cell
from results.numbers import Scores

CELLS = [(scheme, name) for scheme in ENCODINGS for name in MAPS]


def made(of_map: dict[str, float], of_encoding: dict[str, float], slope: float = 1) -> dict[Cell, Scores]:
    """Scores that are sums of a map's and an encoding's share. `slope`: how the map's share changes with seeds."""
    return {
        (scheme, name): Scores(
            {42 + n: 20 + of_map.get(name, 0) * slope**n + of_encoding.get(scheme, 0) for n in range(3)}
        )
        for scheme, name in CELLS
    }


def test_effects_by_hand() -> None:
    """The maps' means are 40, 20, 20, 20 and deviate by 15, -5, -5, -5 from 25: sqrt((225 + 75) / 4) = sqrt(75)."""
    scores = made({"abacus": 20}, {"rope": 10})
    assert maps.effect(scores, 1) == pytest.approx(dict.fromkeys((42, 43, 44), 75**0.5))
    assert maps.effect(scores, 0) == pytest.approx(dict.fromkeys((42, 43, 44), 4.0))  # 8, -2, -2, -2, -2


def test_the_verdict() -> None:
    for scores, expected in (
        (made({"abacus": 40}, {"rope": 10}), "the map"),
        (made({"abacus": 10}, {"rope": 40}), "the encoding"),
        (made({"abacus": 20}, {"rope": 10}), "neither"),  # 4.7 points
        (made({"abacus": 40}, {}, -0.2), "neither"),  # 17.3, 3.5 and 0.7 points
    ):
        assert maps.verdict(scores).endswith(f": {expected}"), expected


def test_the_table() -> None:
    scores = made({"abacus": 40}, {"rope": 10}) | {("none", "plain"): Scores({42: 1, 43: 1, 44: 1})}
    trained = {cell: Scores({42: 100, 43: 100, 44: 69 if cell[0] == "fire" else 71}) for cell in scores}
    lines = maps.table(scores, trained).splitlines()
    assert lines[3] == "| `rope` | 30.0 ±0.0 | 30.0 ±0.0 | 30.0 ±0.0 | 70.0 ±0.0 | 40.0 ±0.0 |"
    assert lines[5] == "| `fire` | (20.0 ±0.0) | (20.0 ±0.0) | (20.0 ±0.0) | (60.0 ±0.0) | 30.0 ±0.0 |"
    assert lines[-2] == "- Beyond training: maps 17.3 ±0.0, encodings 4.0 ±0.0: the map."
    assert lines[-1] == "- At 20 digits: maps 0.0 ±0.0, encodings 0.3 ±1.1: neither."  # 0, 0 and 0.8
    weak = {cell: Scores(dict.fromkeys((42, 43, 44), 89)) for cell in scores}
    assert "cannot be answered" in maps.table(scores, weak).splitlines()[-1]
    assert maps.parts() == {} or "maps" in maps.parts()["maps-effects.md"]
    del scores["alibi", "coupled"], trained["alibi", "coupled"]
    assert maps.table(scores, trained).splitlines()[-1] == "The question is open until all cells are finished."
