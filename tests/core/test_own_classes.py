"""The class of a user's own part: methods take the arguments of those that they override."""

from __future__ import annotations

from typing import Any

import pytest

from ape_cli import attention, position, tasks
from ape_cli.core import executors, plugins
from ape_cli.core.errors import ApeError
from ape_cli.core.plugins import check_class
from ape_cli.data import position_maps
from ape_cli.data.position_maps import PositionSampler
from ape_cli.position import Scheme
from ape_cli.reports import pictures, views
from ape_cli.reports.pictures import PictureKind
from ape_cli.reports.views import View
from ape_cli.storage import tree_formats
from ape_cli.storage.tree_formats import TreeFormat
from ape_cli.training import loggers
from ape_cli.training.loggers import MetricLogger

BASES = {
    attention: attention.AttentionType,
    executors: executors.Executor,
    loggers: MetricLogger,
    pictures: PictureKind,
    position: Scheme,
    position_maps: PositionSampler,
    tasks: tasks.BaseTask,
    tree_formats: TreeFormat,
    views: View,
}


def own(base: type, **attributes: Any) -> type:
    """A user's own class with these attributes."""
    return type("Mine", (base,), {**attributes, "__module__": __name__})


def test_the_parts_of_ape_would_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all classes but those of shared files were a user's own."""
    for package, base in BASES.items():
        for name in plugins.names(package):
            kind = plugins.load(package, name, base)
            with monkeypatch.context() as patch:
                patch.setattr(plugins, "is_user_class", lambda cls, file=kind.__module__: cls.__module__ == file)
                check_class(kind, name)


@pytest.mark.parametrize(
    ("base", "name", "wrong", "allowed"),
    [
        (MetricLogger, "log", lambda self, step: None, "(self, step, metrics)"),
        (PositionSampler, "capacity", lambda self, sources, *, both: None, "(self, sources, *, joined)"),
        (own(MetricLogger, log=lambda self, *given: None), "log", lambda self: None, "(self, step, metrics)"),
    ],
)
def test_other_arguments_are_refused(base: type, name: str, wrong: Any, allowed: str) -> None:
    with pytest.raises(ApeError, match=f"`{name}` of thing 'mine' takes other arguments") as caught:
        check_class(own(base, **{name: wrong}), "thing 'mine'")
    assert caught.value.allowed == allowed


def test_other_ways_to_write_the_same_are_accepted() -> None:
    for base, attributes in (
        (MetricLogger, {"log": lambda self, number, values: None, "close": lambda self, *more: None}),
        (MetricLogger, {"log": staticmethod(lambda step, metrics: None), "__init__": lambda self: None}),
        (PositionSampler, {"capacity": lambda self, sources, joined, up=1: None}),
    ):
        check_class(own(base, **attributes), "thing 'mine'")
