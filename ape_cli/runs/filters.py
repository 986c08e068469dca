"""Filters select runs by scheme, task and preset."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ape_cli.core.errors import ApeError, pick, suggestion
from ape_cli.runs.config import PRESETS

_MOST = 12  # maximum number of combinations that an error lists


class RunKind(NamedTuple):
    """The properties of a run that filters compare.

    `tasks` has all names of the run's task, the most specific one last.
    """

    scheme: str
    tasks: tuple[str, ...]
    preset: str


def kind(scheme: str, preset: str, task: str, order: str | None, parameters: dict[str, Any], *, image: bool) -> RunKind:
    """The kind of a run. Some runs have two names for their task.

    A tree task is also called by its linearisation, as in `tree-copy/depth`, and a task of images (`image`) by its
    source, as in `images/digits`.

    >>> kind("rope", "small", "tree-copy", "depth", {}, image=False).tasks
    ('tree-copy', 'tree-copy/depth')
    """
    more = parameters.get("source") if image else order
    names = (task, f"{task}/{more}" if more else None)
    return RunKind(scheme, tuple(str(name) for name in names if name), preset)


@dataclass(frozen=True)
class Filter:
    """Selects the runs with one of the schemes, one of the tasks and one of the presets. An empty tuple selects all."""

    schemes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The filter as options of the command line."""
        return " ".join(f"--{option} {name}" for option, names, _ in self._options() for name in names)

    def _options(self) -> Iterator[tuple[str, tuple[str, ...], int]]:
        """Yield each option: its name, the names it was given, and the index of its field in `RunKind`."""
        yield from zip(("scheme", "task", "preset"), (self.schemes, self.tasks, self.presets), range(3), strict=True)

    def picks(self, run: RunKind) -> bool:
        """Whether the filter selects this run."""
        return all(not names or _has_one(run, field, names) for _, names, field in self._options())

    def check(self, there: Collection[RunKind], where: str) -> None:
        """Check that each name of the filter occurs in some run, and that some run is selected.

        `there` are the kinds of all runs, and `where` says in words where they are. Without any runs, every filter is
        valid.

        Raises `ApeError` that lists what exists, if the check fails.
        """
        if not there:
            return
        for option, names, field in self._options():
            known = sorted({name for run in there for name in _names(run, field)})
            for name in names:
                if name not in known:
                    raise ApeError(
                        f"no run in {where} has {option} {name!r}",
                        got=f"--{option} {name}",
                        allowed=", ".join(known),
                        fix=suggestion(name, known, "choose one of those, or train such a run"),
                    )
        if not any(map(self.picks, there)):
            fields = [field for _, names, field in self._options() if names]
            alike = [run for run in there if any(_has_one(run, field, names) for _, names, field in self._options())]
            found = sorted({" ".join(_names(run, field)[-1] for field in fields) for run in alike})
            more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
            raise ApeError(
                f"no run in {where} has all of these",
                got=str(self),
                allowed="; ".join(found[:_MOST]) + more,
                fix="leave one of the options out, or train such a run",
            )


def _names(run: RunKind, field: int) -> tuple[str, ...]:
    """The names of a run for one option."""
    found = run[field]
    return (found,) if isinstance(found, str) else found


def _has_one(run: RunKind, field: int, names: tuple[str, ...]) -> bool:
    """Whether a run has one of these names."""
    return not set(names).isdisjoint(_names(run, field))


ANY = Filter()


def make(schemes: list[str] | None, tasks: list[str] | None, presets: list[str] | None) -> Filter:
    """Make a filter from repeated options of the command line. Raises `UsageError` if a preset does not exist."""
    once = [tuple(dict.fromkeys(names or ())) for names in (schemes, tasks, presets)]
    for name in once[2]:
        pick("preset", name, PRESETS)
    return Filter(*once)
