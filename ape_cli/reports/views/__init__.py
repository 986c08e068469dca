"""Views of the registered runs. Each view is one file, and `ape report --view NAME` shows it.

A view reads the runs, makes tables of the result, and draws it:

    read(registry, options)    -> the result
    frame(result)              -> the result as lines for programs (`--format csv`, `json`)
    tables(result, interval)   -> the result as tables for people
    plot(result, options)      -> the result as a figure, if the view has one
    rejects(options)           -> an error for each invalid option, with the reason

The page (`--format html`) has a section for each view. `--plots` draws the figure of the selected view, or of each view
if none is selected. A new view is a file in this folder, or in a folder `ape_cli/reports/views` elsewhere on the Python
path. The name of the view is the stem of its file, with `_` replaced by `-`.
"""

from __future__ import annotations

import pkgutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from ape_cli.core import plugins, user_parts
from ape_cli.core.errors import UsageError, pick
from ape_cli.reports import published
from ape_cli.reports.evaluations import Options
from ape_cli.reports.plots import Plot
from ape_cli.reports.tables import Table
from ape_cli.runs.registry import Registry

__all__ = ["DEFAULT", "Options", "View", "check", "choose", "every", "load", "names"]

__path__ = pkgutil.extend_path(__path__, __name__)  # so that views in another ape_cli/reports/views are found

DEFAULT = "scores"

Result = TypeVar("Result")


class View(ABC, Generic[Result]):
    """One view of the runs. `Result` is the type of the result of `read`, which is passed to the other methods."""

    part_kind: ClassVar[str] = "view"  # for messages
    about: ClassVar[str] = ""  # a line of help
    by: ClassVar[str | None] = None  # `--by BY` is `--view NAME`
    compares: ClassVar[bool] = False  # whether `--compare A B` selects this view, which compares two rows
    metric: ClassVar[str | None] = None  # the metric of its tables, if it is not that of `Options`
    unused: ClassVar[tuple[str, ...]] = ()  # options of `Options` without an effect; the user must not give them
    on_page: ClassVar[bool] = True  # whether it is a section of the page; otherwise its page shows it alone
    rank: ClassVar[int] = 100  # its position on the page: lower ranks come first, then names decide
    caption: ClassVar[str] = ""  # the caption of its figure; a view without a caption has no figure

    @property
    def name(self) -> str:
        """The name of the view, from its file."""
        return plugins.name_of(type(self))

    @property
    def title(self) -> str:
        """The title of the section. In lower case and with hyphens it is also the name of the figure."""
        return self.name.replace("-", " ").capitalize()

    @abstractmethod
    def read(self, registry: Registry, options: Options) -> Result:
        """The result of the view. A warning of `logging` that begins with `core.errors.LEFT_OUT` names what is missing.

        Raises `ApeError` if there is nothing to show. A page, and the plots of another view, then go without it.
        """

    @abstractmethod
    def frame(self, result: Result) -> pl.DataFrame:
        """The result as lines for programs."""

    @abstractmethod
    def tables(self, result: Result, *, interval: bool = False) -> list[Table]:
        """The result as tables."""

    def plot(self, result: Result, options: Options) -> Plot | None:
        """The result as a figure, or None if there is nothing to draw."""
        return None

    def rejects(self, options: Options) -> Iterator[UsageError]:
        """An error for each invalid option. A view adds its own errors to these, which hold for every view."""
        if self.compares and not options.compare:
            what, fix = f"the view {self.name} needs two rows of the tables", "name them: `compare=A B`"
            yield UsageError(what, got="no `compare`", fix=fix)
        for name in self.unused if self.compares else (*self.unused, "compare"):
            if getattr(options, name) != getattr(Options, name):
                yield UsageError(f"the view {self.name} does not use `{name}`", got=f"`{name}`", fix="leave it out")
        if options.against and options.best_by:
            what = "published numbers cannot be matched to tuned rows, which do not name all settings"
            got = f"`against={options.against}` and `best_by={options.best_by}`"
            yield UsageError(what, got=got, fix="leave one out")
        if options.against:
            metrics = published.load(options.against).metrics
            for name, allowed in {"metric": metrics, "decode": ["teacher"], "split": ["test"]}.items():
                if (value := getattr(options, name)) not in allowed and name not in self.unused:
                    what = "there are no such published scores"
                    got, among = f"`against={options.against}` and `{name}={value}`", f"{name} {', '.join(allowed)}"
                    yield UsageError(what, got=got, allowed=among, fix="leave one out")


def names() -> list[str]:
    """The names of all views. Raises `UsageError` if two views have the same name."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> View[Any]:
    """The view of a name. Raises `ApeError` if there is no such view, or if its file cannot be imported."""
    view_class = plugins.load(sys.modules[__name__], name, View)  # type: ignore[type-abstract]
    with user_parts.explained(view_class):
        return view_class()


def every() -> list[View[Any]]:
    """All views that can be imported, in the order of the page."""
    return sorted(user_parts.every(load, names()), key=lambda view: (view.rank, view.name))


def check(view: View[Any], options: Options) -> None:
    """Raise the first error of a view about invalid options, or `ApeError` if a user's own view fails."""
    with user_parts.explained(view):
        for error in view.rejects(options):
            raise error


def choose(name: str | None, by: str | None, compare: tuple[str, str] | None) -> View[Any]:
    """The view that `view`, `by` or `compare` selects; without any of them, the default view.

    Raises `UsageError` if there is no such view, or if two views are selected.
    """
    views = every() if by is not None or compare else []
    if by is not None:
        of_group = {view.by: view for view in views if view.by}
        chosen = of_group[pick("grouping", by, of_group)]
        if name not in (None, chosen.name):
            raise UsageError("one view at a time", got=f"`view={name}` and `by={by}`", fix="leave one out")
        return chosen
    if compare and name is None:
        return next(view for view in views if view.compares)
    return load(name or DEFAULT)
