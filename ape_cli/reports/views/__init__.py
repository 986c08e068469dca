"""Views of the registered runs: one file each, found by its name. `ape report --view NAME` shows one of them.

A view reads the runs, tabulates what it has found, and draws it:

    read(registry, options)    -> what it has found, and a line of text about each run that cannot be read
    frame(found)               -> the lines that programs get (`--format csv`, `json`)
    tables(found, interval)    -> the tables that people get
    plot(found, options)       -> its figure, if it has one
    rejects(options)           -> an error for each option that it refuses, which says why

The page (`--format html`) has a section for each view, and `--plots` draws the figure of each view. A new view is a
file here, or in a folder `ape_cli/reports/views` elsewhere on the Python path. Its name is the file's stem, `_` as `-`.
"""

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, UsageError, pick
from ape_cli.reports import paper
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.runs.registry import Registry

__path__ = pkgutil.extend_path(__path__, __name__)  # a folder ape_cli/reports/views elsewhere on the path adds to these

DEFAULT = "scores"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Options:
    """What `ape report` was asked for, apart from the runs and the place of its output."""

    metric: str = "token_accuracy"
    decode: str = "teacher"
    split: str = "test"
    against: str | None = None  # `paper`: its numbers beside ours
    compare: tuple[str, str] | None = None  # two rows of the tables
    interval: bool = False  # half of the 95% interval over seeds stands after ±, not the standard deviation
    own: bool = False  # scores on the data that a run was trained on alone
    style: str = "rich"  # one of `rendering.FORMATS`
    plots: str | None = None  # the folder of plots, if they are asked for
    axis: str | None = None  # what plots show, if it is asked for
    asked: str = ""  # how the view was asked for: `--by size`; empty if it was not
    needed: bool = True  # without anything to show, `read` raises an `ApeError`; else it finds nothing

    @property
    def scores(self) -> dict[str, Any]:
        """The kind of scores: arguments of `evaluations.wanted` and `parts.read`."""
        return {"metric": self.metric, "decode": self.decode, "split": self.split}


class View(ABC, Generic[Found]):
    """One view of the runs. `Found` is what `read` finds; the other methods get it."""

    about: ClassVar[str]  # a line of help
    by: ClassVar[str | None] = None  # `--by BY` is `--view NAME`
    compares: ClassVar[bool] = False  # whether it shows the two rows of `--compare A B`, which asks for it
    comparison: ClassVar[str] = "a view of its own"  # what a comparison is, so that it cannot be one of this view
    on_page: ClassVar[bool] = True  # whether the page has a section of it; else its page has it alone
    rank: ClassVar[int] = 100  # its place on the page: lower ranks first, then by name
    caption: ClassVar[str] = ""  # of its figure, on the page; a view without one has no figure

    @property
    def name(self) -> str:
        """The name of its file."""
        return plugins.name_of(type(self))

    @property
    def title(self) -> str:
        """The title of its section. In lower case, with hyphens, it is the name of its figure."""
        return self.name.replace("-", " ").capitalize()

    @property
    def called(self) -> str:
        """What errors call it."""
        return f"the view {self.name}"

    @abstractmethod
    def read(self, registry: Registry, options: Options) -> tuple[Found, list[str]]:
        """What there is to show, and a line of text about each run that cannot be read.

        Raises `ApeError` if there is nothing and it is `needed`.
        """

    @abstractmethod
    def frame(self, found: Found) -> pl.DataFrame:
        """What it has found, as programs get it."""

    @abstractmethod
    def tables(self, found: Found, *, interval: bool = False) -> list[Table]:
        """The same as tables; none, if nothing was found."""

    def plot(self, found: Found, options: Options) -> Plot | None:
        """The same as a figure; None, if there is nothing to draw."""
        return None

    def rejects(self, options: Options) -> Iterator[UsageError]:
        """The errors of these options. A view adds its own; those here are the same for every view."""
        if options.interval and options.style in ("csv", "json"):
            yield UsageError(f"{options.style} always has the interval", got="--interval", fix="leave it out")
        if options.compare and not self.compares:
            got = f"--compare and {options.asked}"
            yield UsageError(f"a comparison is {self.comparison}", got=got, fix="leave one out")
        if self.compares and not options.compare:
            got = options.asked
            yield UsageError(f"{self.called} is of two rows of the tables", got=got, fix="name them: --compare A B")
        if options.style == "html" and options.asked and self.on_page:
            what = f"by {self.by}" if self.by else f"of {self.called}"
            yield UsageError(f"a page always has the tables {what}", got=options.asked, fix="leave it out")
        if not self.on_page and not self.caption:
            for name, value in (("plots", options.plots), ("axis", options.axis)):
                if value is not None:
                    got = f"{options.asked} and --{name} {value}"
                    yield UsageError(f"{self.called} has no plots", got=got, fix="leave one out")
        yield from paper.rejects(options.against, **options.scores)


def names() -> list[str]:
    """The name of every view."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> View[Any]:
    """The view of a name. Raises `ApeError` if there is none, or if its file cannot be imported."""
    return plugins.load(sys.modules[__name__], "view", name, View)()  # type: ignore[type-abstract]


def every() -> tuple[list[View[Any]], list[str]]:
    """All views, in the order of the page, and a line of text about each one that cannot be imported."""
    found, bad = list[View[Any]](), list[str]()
    for name in names():
        try:
            found.append(load(name))
        except ApeError as error:  # somebody's own file: the others go on
            bad.append(str(error))
    return sorted(found, key=lambda view: (view.rank, view.name)), bad


def choose(name: str | None, by: str | None, compare: tuple[str, str] | None) -> tuple[View[Any], str]:
    """The view that is asked for by its name or by an option of its own, and the words that ask for it.

    Raises `UsageError` if there is no such view, or if two are asked for.
    """
    grouped = {view.by: view for view in every()[0] if view.by} if by is not None else {}
    of_group = grouped[pick("grouping", by, grouped)] if by is not None else None
    if name is not None:
        chosen = load(name)
        if of_group and of_group.name != chosen.name:
            raise UsageError("one view at a time", got=f"--view {name} and --by {by}", fix="leave one out")
        return chosen, "--compare" if compare and chosen.compares else f"--view {name}"
    if of_group:
        return of_group, f"--by {by}"
    if compare:
        return next(view for view in every()[0] if view.compares), "--compare"
    return load(DEFAULT), ""
