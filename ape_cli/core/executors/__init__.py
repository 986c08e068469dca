"""Executors run independent jobs. `local` uses processes of this machine, and `ray` uses tasks of a Ray cluster.

On the command line, an executor is called an engine (`--engine`). An executor does not know what a job does. A job may
be run again if its process or machine dies, so it must be idempotent: a shard is written atomically, and a run resumes
from its stored state.
"""

from __future__ import annotations

import inspect
import math
import pickle
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ape_cli.core import plugins
from ape_cli.core.errors import ApeError, Lines, UsageError


class JobContext(Protocol):
    """What a job gets as its first argument, to communicate with the process that waits for it."""

    @property
    def number(self) -> int:
        """The index of the worker on its machine, from 0. It is always 0 on a cluster that assigns GPUs itself."""

    def tell(self, value: Any) -> None:
        """Send `value` to the waiting process as an event. Delivery is not guaranteed."""

    def stopping(self) -> bool:
        """Whether the job was asked to end soon. It may then raise `KeyboardInterrupt`."""


@dataclass(frozen=True)
class Job:
    """A job: the call `call(link, *args)`, where `link` is a `JobContext`.

    `call` must be a function of a module, so that other processes can import it. `key` identifies the job in events.
    """

    key: str
    call: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    """Something that happened to the job called `key`.

    `value` is what the job told, its result, or its `Failure`. A job that is run again has a second `started`.
    """

    key: str
    kind: Literal["started", "told", "done", "failed"]
    value: Any = None


@dataclass(frozen=True)
class Failure:
    """Why a job failed: the user error, if it was one, and a text for the user."""

    error: ApeError | None
    text: str

    def raised(self) -> Exception:
        """The exception to raise for this failure."""
        return self.error or RuntimeError(self.text)


class Executor(ABC):
    """Base class of executors. An executor runs several jobs at once."""

    @property
    @abstractmethod
    def slots(self) -> int | None:
        """How many jobs run at once, or None if the cluster decides."""

    @abstractmethod
    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.
        """


def names() -> list[str]:
    """The names of all executors."""
    return plugins.names(sys.modules[__name__])


def make(name: str, **options: Any) -> Executor:
    """Make the executor called `name`. Options that are None are left out.

    Raises `UsageError` if there is no such executor, if it does not have one of the options, or if a value is invalid.
    """
    found = plugins.load(sys.modules[__name__], "engine", name, Executor)  # type: ignore[type-abstract]
    known = inspect.signature(found).parameters
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in known:
            raise UsageError(
                f"engine {name} has no such option",
                got=f"`{key}`",
                allowed=", ".join(f"`{name}`" for name in known),
                fix="leave it out, or choose another `engine`",
            )
    return found(**given)


def at_least(option: str, value: float | None, least: float) -> None:
    """Raise `UsageError` if the value of an option is given and is not a finite number from `least` on."""
    if value is not None and not least <= value < math.inf:
        raise UsageError(f"bad `{option}`", got=value, allowed=f"{least} or more", fix="leave it out")


def outcome(link: JobContext, job: Job) -> Event:
    """Run a job, and return the event `done` with its result, or `failed`.

    Only `KeyboardInterrupt` is passed on.
    """
    try:
        return Event(job.key, "done", job.call(link, *job.args))
    except KeyboardInterrupt:
        raise
    except ApeError as error:
        return Event(job.key, "failed", Failure(_portable(error), str(error)))
    except BaseException:  # a failing job must not stop the others
        return Event(job.key, "failed", Failure(None, traceback.format_exc()))


def lost(job: Job, text: str, fix: str = "run the same command again to continue; use fewer `workers`") -> Failure:
    """The failure of a job that did not run to its end, for a reason outside of it. `text` says why."""
    return Failure(ApeError(text, got=job.key, fix=fix), text)


def _portable(error: ApeError) -> ApeError:
    """The error in a form that can be sent to another process with its message.

    An error that cannot be pickled, or that changes its message when it is pickled, becomes an `ApeError`.
    """
    try:
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    except Exception:  # an error class of a plug-in may have other arguments
        pass
    return ApeError(Lines(error))
