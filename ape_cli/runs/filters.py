"""Filters select runs by scheme, task and preset."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from ape_cli.core.errors import ApeError, pick, suggestion
from ape_cli.runs.config import PRESETS


class RunKind(NamedTuple):
    """The properties of a run that filters compare, in the order of the fields of `Filter`.

    `tasks` has all names of the run's task, the most specific one last.
    """

    schemes: tuple[str, ...]
    tasks: tuple[str, ...]
    presets: tuple[str, ...]


def kind(scheme: str, preset: str, task: str, order: str | None, parameters: dict[str, Any], *, image: bool) -> RunKind:
    """The kind of a run. Some runs have two names for their task.

    A tree task is also called by its linearisation, as in `tree-copy/depth`, and a task of images (`image`) by its
    source, as in `images/digits`.

    >>> kind("rope", "small", "tree-copy", "depth", {}, image=False).tasks
    ('tree-copy', 'tree-copy/depth')
    """
    more = parameters.get("source") if image else order
    return RunKind((scheme,), (task, f"{task}/{more}") if more else (task,), (preset,))


class Filter(NamedTuple):
    """Selects the runs with one of the schemes, one of the tasks and one of the presets. An empty tuple selects all."""

    schemes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The filter as options."""
        return " ".join(f"`{option}={name}`" for option, names in zip(_OPTIONS, self, strict=True) for name in names)

    def picks(self, run: RunKind) -> bool:
        """Whether the filter selects this run."""
        return all(not names or set(names) & set(has) for names, has in zip(self, run, strict=True))

    def check(self, runs: Collection[RunKind], where: str) -> None:
        """Check that each name of the filter occurs in some run, and that some run is selected.

        `runs` are the kinds of all runs, and `where` says in words where they are. Without any runs, every filter is
        valid.

        Raises `ApeError` that lists what exists, if the check fails.
        """
        for option, names, fields in zip(_OPTIONS, self, zip(*runs, strict=True), strict=False):
            known = sorted({name for has in fields for name in has})
            for name in names:
                if name not in known:
                    raise ApeError(
                        f"no run in {where} has {option} {name!r}",
                        got=f"`{option}={name}`",
                        allowed=", ".join(known),
                        fix=suggestion(name, known, "choose one of those, or train such a run"),
                    )
        if runs and not any(map(self.picks, runs)):
            fix = "leave one of the options out, or train such a run"
            raise ApeError(f"no run in {where} matches all of these options", got=str(self), fix=fix)


_OPTIONS = ("scheme", "task", "preset")
ANY = Filter()


def make(schemes: list[str] | None, tasks: list[str] | None, presets: list[str] | None) -> Filter:
    """Make a filter from repeated options. Raises `UsageError` if a preset does not exist."""
    for name in presets or ():
        pick("preset", name, PRESETS)
    return Filter(*(tuple(dict.fromkeys(names or ())) for names in (schemes, tasks, presets)))
