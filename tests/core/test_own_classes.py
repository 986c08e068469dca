"""The class of a user's own part: methods take the arguments of those that they override."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.core.plugins import check_class
from ape_cli.data.position_maps import PositionSampler
from ape_cli.position import Scheme
from ape_cli.reports.views import View
from ape_cli.storage.tree_formats import TreeFormat
from ape_cli.tasks import BaseTask
from ape_cli.training.loggers import MetricLogger


def own(base: type, **attributes: Any) -> type:
    """A user's own class with these attributes."""
    return type("Mine", (base,), {**attributes, "__module__": __name__})


@pytest.mark.parametrize(
    ("base", "name", "wrong", "allowed"),
    [
        (MetricLogger, "log", lambda self, step: None, "(self, step, metrics)"),
        (PositionSampler, "capacity", lambda self, sources, *, both: None, "(self, sources, *, joined)"),
        (own(MetricLogger, log=lambda self, *given: None), "log", lambda self: None, "(self, step, metrics)"),
    ],
)
def test_other_arguments_are_refused(base: type, name: str, wrong: Any, allowed: str) -> None:
    with pytest.raises(ApeError, match=f"`{name}` of thing 'mine' takes the wrong arguments") as caught:
        check_class(own(base, **{name: wrong}), "thing 'mine'")
    assert caught.value.allowed == allowed


def test_an_attribute_with_the_name_of_a_method_is_refused() -> None:
    with pytest.raises(ApeError, match="`text` of thing 'mine' hides a method of that name"):
        check_class(own(BaseTask, text="hello"), "thing 'mine'")


@pytest.mark.parametrize(
    ("base", "name", "wrong"),
    [(View, "unused", "metric"), (TreeFormat, "suffixes", ".txt"), (Scheme, "bounded", "maybe")],
)
def test_an_attribute_of_another_type_is_refused(base: type, name: str, wrong: object) -> None:
    with pytest.raises(ApeError, match=f"`{name}` of thing 'mine' has the wrong type"):
        check_class(own(base, **{name: wrong}), "thing 'mine'")


def test_other_ways_to_write_the_same_are_accepted() -> None:
    for base, attributes in (
        (MetricLogger, {"log": lambda self, number, values: None, "close": lambda self, *more: None}),
        (MetricLogger, {"log": staticmethod(lambda step, metrics: None), "__init__": lambda self: None}),
        (PositionSampler, {"capacity": lambda self, sources, joined, up=1: None}),
        (View, {"unused": ["metric"], "title": "A title"}),
        (Scheme, {"bounded": property(lambda self: True)}),
    ):
        check_class(own(base, **attributes), "thing 'mine'")
