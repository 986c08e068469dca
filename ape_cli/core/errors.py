"""What a user is told when something of theirs is wrong: what, got, allowed, fix.

Everything that a user can cause is an `ApeError`; the command line prints it without a traceback. An
`AssertionError` or any other exception is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

_Name = TypeVar("_Name", bound=str)


class ApeError(ValueError):
    """A user-facing error; `exit_code` is what the command ends with."""

    exit_code = 1

    def __init__(self, what: str, *, got: object = None, allowed: object = None, fix: str | None = None) -> None:
        self.what, self.got, self.allowed, self.fix = what, got, allowed, fix
        lines = [what]
        for label, value in (("got", got), ("allowed", allowed), ("fix", fix)):
            if value is not None:
                lines.append(f"  {label + ':':<9}{value}")
        super().__init__("\n".join(lines))


class UsageError(ApeError):
    """The command line (or an argument of the Python surface) is wrong; nothing was started."""

    exit_code = 2


class DataError(ApeError):
    """A dataset on disk is missing, foreign, damaged, or does not fit what is asked of it."""


class RunError(ApeError):
    """A run on disk is missing, damaged, in use, or does not fit what is asked of it."""


class PlaceError(ApeError):
    """An address that cannot be used: no such bucket, no right to it, nobody there."""


class BusyError(ApeError):
    """Another process is at the same thing; it may be done when it ends."""


def unknown(kind: str, name: str, allowed: Iterable[str], searched: Iterable[str] = ()) -> UsageError:
    """The error for an unknown `kind` called `name`, with the nearest match and the full list.

    `searched` are the places where the names come from, if a user can add to them.

    >>> print(unknown("task", "tree-cpoy", ["copy", "tree-copy"]))
    unknown task
      got:     'tree-cpoy'
      allowed: copy, tree-copy
      fix:     did you mean 'tree-copy'?
    """
    names = sorted(allowed)
    near = nearest(name, names)
    places = ", ".join(searched)
    return UsageError(
        f"unknown {kind}",
        got=repr(name),
        allowed=", ".join(names) or "none",
        fix=(f"did you mean {near!r}?" if near else "choose one from the list")
        + (f" (searched: {places})" if places else ""),
    )


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like this one; None where none is."""
    return next(iter(difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.5)), None)


def pick(kind: str, name: str, allowed: Iterable[_Name]) -> _Name:
    """The one of `allowed` that is called `name`, else the `unknown` error."""
    names = {str(other): other for other in allowed}
    if name not in names:
        raise unknown(kind, name, names)
    return names[name]
