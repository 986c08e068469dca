"""The rules of maps of positions: those of ape keep them, and each mistake in a user's own map breaks one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ape_cli import experiment
from ape_cli.core import plugins, rng, user_parts
from ape_cli.core.errors import ApeError, UsageError
from ape_cli.data import position_maps
from ape_cli.data.loader import Dataset
from ape_cli.data.position_maps import PositionSampler, RowPositions
from ape_cli.data.position_maps._rules import RULES
from ape_cli.data.position_maps.plain import Plain
from ape_cli.experiment import ExperimentSpec
from tests.data.position_maps.plain import NAMES

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "offset": [{"maximum": 3}],
    "randomised": [{"answer": 2}, {"maximum": 3}, {"maximum": 65_536}],
}


def measure(sampler: PositionSampler) -> None:
    for rule in RULES.values():
        user_parts.apply(rule, sampler)


def test_the_maps_of_ape_keep_every_rule() -> None:
    for name in NAMES:
        for options in ({}, *OPTIONS.get(name, [])):
            measure(position_maps.make(name, **options))


class _Table(Plain):
    """A map that computes something from the keys, the counts and the number of places."""

    def __init__(self) -> None:
        self.made, self.kept, self.calls = random.randrange(90), dict[int, Any](), 0

    def positions(self, keys, counts, most):
        places = np.tile(np.arange(1, most + 1), (len(keys), 1))
        self.calls += 1
        return self.table(keys, counts, most, places)

    def greatest(self, most):
        return 10 * most + 100

    def table(self, keys, counts, most, places):
        return places


def table(formula: Any) -> PositionSampler:
    """A user's own map with this formula."""
    return type("Mine", (_Table,), {"table": formula, "__module__": __name__})()


WRONG_TABLES = [
    lambda self, keys, counts, most, places: places.astype(float),
    lambda self, keys, counts, most, places: places[:, :-1],
    lambda self, keys, counts, most, places: places - 1,
    lambda self, keys, counts, most, places: places * 100,  # beyond `greatest`
    lambda self, keys, counts, most, places: 1 // 0,
    lambda self, keys, counts, most, places: places + np.random.randint(90),
    lambda self, keys, counts, most, places: places + np.random.default_rng().integers(0, 90, (len(keys), 1)),
    lambda self, keys, counts, most, places: places + min(self.calls, 90),
    lambda self, keys, counts, most, places: places + self.made,  # other options in another process
    lambda self, keys, counts, most, places: places + np.arange(len(keys))[:, None],  # the place in the batch
    lambda self, keys, counts, most, places: most + 1 - places,  # from the end of the longest row
    lambda self, keys, counts, most, places: places + (counts[:, None] > 5),  # of the batch, without a capacity
    lambda self, keys, counts, most, places: places + rng.below(keys[:1], 50),  # the key of the first row
    lambda self, keys, counts, most, places: places + np.random.default_rng(0).integers(0, 9, (len(keys), 1)),
    lambda self, keys, counts, most, places: self.kept.setdefault(most, places + rng.below(keys, 50)[:, None]),
]


@pytest.mark.parametrize("formula", WRONG_TABLES)
def test_a_mistake_in_positions_breaks_a_rule(formula: Any) -> None:
    with pytest.raises(ApeError, match=r"`(positions|table)` of position map 'test-rules'"):
        measure(table(formula))


def test_a_mistake_in_another_method_breaks_a_rule() -> None:
    for methods in (
        {"greatest": lambda self, most: most - 1},
        {"capacity": lambda self, sources, *, joined: np.full_like(sources, sources.max() * 2)},
        {"capacity": lambda self, sources, *, joined: None if len(sources) > 1 else sources * 3},
        {"capacity": lambda self, sources, *, joined: sources * 2.0},
        {"capacity": lambda self, sources, *, joined: np.add(sources, 1, out=sources)},
        {"reads_tokens": True, "places": lambda self, ids: ids - 1},
        {"reads_tokens": True, "places": lambda self, ids: ids * 1.0},
        {"reads_tokens": True, "places": lambda self, ids: ids[:, ::-1]},
        {"reads_tokens": True, "places": lambda self, ids: np.maximum.accumulate(ids)},
        {"reads_tokens": True},
    ):
        with pytest.raises(ApeError, match="position map 'test-rules'"):
            measure(type("Mine", (Plain,), {**methods, "__module__": __name__})())
    measure(table(lambda self, keys, counts, most, places: places + rng.below(keys, 9)[:, None]))


def test_positions_out_of_range_are_refused_wherever_they_are_read() -> None:
    """Also in rows of a length that was not measured. A bounded scheme would take another position in their place."""

    class Steep(Plain):
        def positions(self, keys, counts, most):
            return super().positions(keys, counts, most) ** (1 + (most > 200))

    found = RowPositions(Steep(), 0)
    measure(found.sampler)
    mask = np.ones((2, 300), dtype=bool)
    with pytest.raises(ApeError, match=r"`positions` of position map[\s\S]*position 324 of 300 places[\s\S]*1 to 300"):
        found.at(np.arange(2), np.array([300, 300]), np.arange(1, 301)[None], mask)


def test_a_source_beyond_the_capacity_is_refused() -> None:
    class Few(Plain):
        def capacity(self, sources, *, joined):
            return np.minimum(sources * 2, 50)

    for joined in (False, True):
        with pytest.raises(UsageError, match=r"no position for every token of row 7"):
            RowPositions(Few(), 0, joined).check(np.array([6, 7]), np.array([20, 60]), np.array([3, 3]))


def test_an_own_map_is_checked_once_where_it_is_used(words: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the training as by the evaluation. The check costs 15 milliseconds, so the next one is left out."""
    monkeypatch.setattr(plugins, "is_user_class", lambda cls: True)
    monkeypatch.setattr(user_parts, "_checked", set())
    mine = type("Mine", (_Table,), {"__module__": __name__})
    monkeypatch.setattr(position_maps, "load", lambda name: mine)
    chosen = ExperimentSpec(preset="tiny", scheme="rope", positions="mine").config("sequence")
    wanted = experiment.complete(chosen, words)
    assert [kind.__name__ for kind, *_ in user_parts._checked].count("Mine") == 1
    monkeypatch.setattr(user_parts, "_checked", set())
    monkeypatch.setattr(_Table, "table", WRONG_TABLES[9])
    for use in (lambda: experiment.complete(chosen, words), lambda: experiment.reading.row_positions(wanted)):
        with pytest.raises(ApeError, match="in a batch of another order"):
            use()
