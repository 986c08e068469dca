"""The settings that are tried: the same for every scheme, in any subset, with the default among them."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli.core.errors import UsageError
from ape_cli.sweep import combinations
from ape_cli.sweep.combinations import TrialGroup
from tests.conftest import grid_of

RATES = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]
GRID = {"schemes": ["rope", "orthogonal-seq"], "tasks": ["copy", "reverse"], "seeds": [1, 2, 3]}


def groups(tune: dict[str, Any], **fields: Any) -> list[TrialGroup]:
    return combinations.groups([grid_of(GRID | fields | {"tune": tune})], "tiny")


def test_without_seeds_of_its_own_all_settings_have_all_seeds() -> None:
    found = groups({"set": {"lr_peak": [1e-3, 3e-3], "decay": [1, 0.98]}})
    assert [(g.base.scheme, len(g.settings), g.seeds, g.later) for g in found] == [
        (scheme, 4, [1, 2, 3], []) for _ in range(2) for scheme in GRID["schemes"]
    ]
    assert found[0].settings[1] == {"lr_peak": 1e-3, "decay": 0.98}
    assert len(combinations.first_stage(found)) == 4 * 4 * 3


def test_with_seeds_of_its_own_the_others_come_later() -> None:
    (group, *_) = groups({"set": {"lr_peak": [1e-3, 3e-3]}, "seeds": [2]})
    assert (group.seeds, group.later) == ([2], [1, 3])
    with pytest.raises(UsageError, match="not among `seeds`"):
        groups({"set": {"lr_peak": [1e-3, 3e-3]}, "seeds": [9]})


def test_a_subset_is_the_same_for_all_has_the_defaults_and_grows() -> None:
    """At preset tiny, the learning rate is 0.001 and the locality bias 1 for `rope` and 0.98 for `orthogonal-seq`."""
    default = 1e-3
    values = {"lr_peak": RATES, "decay": [1, 0.98, 0.9]}
    before: list[dict[str, Any]] = []
    for trials in range(2, 16):
        settings = [g.settings for g in groups({"set": values, "trials": trials})]
        assert all(one == settings[0] for one in settings)
        assert len(settings[0]) == trials
        assert {"lr_peak": default, "decay": 1} in settings[0]
        assert {"lr_peak": default, "decay": 0.98} in settings[0]
        assert all(one in settings[0] for one in before)
        before = settings[0]


def test_the_subset_is_these() -> None:
    """Written down, so that no change of the code draws others. The default, 0.01, is not among them."""
    (group, *_) = groups({"set": {"weight_decay": [float(i) for i in range(1, 21)]}, "trials": 4})
    assert [setting["weight_decay"] for setting in group.settings] == [6.0, 12.0, 16.0, 20.0]


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"trials": 2}, "`tune` names no setting"),
        ({"set": {"lr_peak": [1e-3, 1e-3]}}, "listed twice"),
        ({"set": {"lr_peak": [1e-3, 3e-3]}, "trials": 3}, "more trials than combinations"),
        ({"set": {"decay": [1, 0.98, 0.9], "lr_peak": [1e-3, 3e-3, 1e-2]}, "trials": 1}, "default settings"),
        ({"set": {"steps": [1, 2]}}, "steps is both set and tuned"),
        ({"set": {f"a{i}": list(range(30)) for i in range(5)}}, "too many values to tune"),
    ],
)
def test_what_is_wrong_is_said(tune: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        groups(tune, set={"steps": 5})
