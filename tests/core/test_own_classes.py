"""The class of a user's own part: methods take the arguments of those that they override, attributes have a type."""

from __future__ import annotations

from typing import Any, ClassVar

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
from ape_cli.tasks import Task
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
    """A user's own class with these attributes. Its base has no more abstract methods than it had."""
    return type("Mine", (base,), {**attributes, "__module__": __name__})


def check(found: type) -> None:
    check_class(found, "thing 'mine'")


def test_the_parts_of_ape_would_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all classes but those of shared files were a user's own."""
    count = 0
    for package, base in BASES.items():
        for name in plugins.names(package):
            kind = plugins.load(package, name, base)
            with monkeypatch.context() as patch:
                patch.setattr(plugins, "is_user_class", lambda cls, file=kind.__module__: cls.__module__ == file)
                check_class(kind, name)
            count += 1
    assert count > 80


@pytest.mark.parametrize(
    ("base", "name", "wrong", "message"),
    [
        (
            MetricLogger,
            "log",
            lambda self, step: None,
            r"takes other arguments[\s\S]*\(self, step\)[\s\S]*step, metrics\)",
        ),
        (MetricLogger, "close", lambda: None, "takes other arguments"),
        (MetricLogger, "close", 3, r"is not a method[\s\S]*`def close\(self\)`"),
        (View, "tables", lambda self, result: None, r"allowed: \(self, result, \*, interval=False\)"),
        (PositionSampler, "capacity", lambda self, sources: None, r"\(self, sources, \*, joined\)"),
        (PositionSampler, "capacity", lambda self, sources, *, both: None, "takes other arguments"),
        (Scheme, "bias", staticmethod(lambda q: None), "takes other arguments"),
        (Task, "structure", lambda self: "seq", r"is a method[\s\S]*@property"),
        (Task, "mean_tokens", None, "float"),
        (View, "unused", "metric", r"tuple\[str, \.\.\.\]"),
        (PictureKind, "needs", "nothing", "scheme.*training"),
        (MetricLogger, "needs", 3, r"str \| None"),
        (TreeFormat, "suffixes", ".txt", "tuple"),
    ],
)
def test_an_attribute_of_another_kind(base: type, name: str, wrong: Any, message: str) -> None:
    with pytest.raises(ApeError, match=f"`{name}` of thing 'mine' .*[\\s\\S]*{message}"):
        check(own(base, **{name: wrong}))


def test_other_ways_to_write_the_same_are_accepted() -> None:
    for base, attributes in (
        (MetricLogger, {"log": lambda self, number, values: None, "close": lambda self, *more: None}),
        (MetricLogger, {"log": lambda self, *given, **named: None}),
        (MetricLogger, {"log": staticmethod(lambda step, metrics: None), "more": 3}),
        (MetricLogger, {"__init__": lambda self: None}),  # the constructor is not that of the base
        (
            PositionSampler,
            {"capacity": lambda self, sources, joined: None, "positions": lambda self, keys, counts, most, up=1: 1},
        ),
        (Task, {"structure": "seq", "mean_size": 5, "mean_tokens": property(lambda self: 5.0), "summary": "a task"}),
        (View, {"unused": ["metric"], "title": "A title", "columns": lambda self: None}),
    ):
        check(own(base, **attributes))


def test_classes_between_count_too() -> None:
    """A method that overrides one of a user's own class is compared with that of ape."""

    class Shared(MetricLogger):
        needs: ClassVar[str | None] = None

        def log(self, step, metrics):
            """Nothing."""

    class Mine(Shared):
        def log(self, step):
            """Nothing."""

    check(Shared)
    with pytest.raises(ApeError, match="takes other arguments"):
        check(Mine)
