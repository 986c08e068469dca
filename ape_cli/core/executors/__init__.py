"""Executors run independent jobs. `local` uses processes of this machine, and `ray` uses tasks of a Ray cluster.

On the command line, an executor is called an engine (`--engine`). An executor does not know what a job does. A job may
be run again if its process or machine dies, so it must be idempotent: a shard is written atomically, and a run resumes
from its stored state.
"""

from __future__ import annotations

import math
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ape_cli.core import part_options, plugins, user_parts
from ape_cli.core.errors import ApeError, Lines, UsageError


@dataclass(frozen=True)
class JobContext:
    """What a job gets as its first argument, to communicate with the process that waits for it.

    `number` is the index of the worker on its machine, from 0; it is always 0 on a cluster that assigns GPUs itself.
    `report` sends a value to the waiting process as an event; delivery is not guaranteed. `stopping` says whether the
    job was asked to end soon; it may then raise `KeyboardInterrupt`.
    """

    number: int
    report: Callable[[Any], None]
    stopping: Callable[[], bool]


@dataclass(frozen=True)
class Job:
    """A job: the call `call(context, *args)`, where `context` is a `JobContext`.

    `call` must be a function of a module, so that other processes can import it. `key` identifies the job in events.
    """

    key: str
    call: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    """Something that happened to the job called `key`.

    `value` is what the job reported, its result, or the exception that says why it failed: a user error, or a
    `RuntimeError` with a traceback. A job that is run again has a second `started`.
    """

    key: str
    event_type: Literal["started", "progress", "done", "failed"]
    value: Any = None


class Executor(ABC):
    """Base class of executors. An executor runs several jobs at once."""

    part_kind: ClassVar[str] = "engine"  # for messages
    slots: int | None  # how many jobs run at once; None if the cluster decides
    minimums: ClassVar[Mapping[str, float]]  # the smallest value of each option that is a number

    @abstractmethod
    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.
        """


def make(name: str, **options: Any) -> Executor:
    """Make the executor called `name`. Options that are None are left out.

    Raises `UsageError` if there is no such executor, if it does not have one of the options, or if a value is invalid.
    """
    engine = plugins.load(sys.modules[__name__], name, Executor)  # type: ignore[type-abstract]
    chosen = {key: value for key, value in options.items() if value is not None}
    chosen = part_options.settings(f"engine {name}", chosen, part_options.options(engine))
    for option, minimum in engine.minimums.items():
        if not minimum <= chosen.get(option, minimum) < math.inf:
            raise UsageError(f"bad `{option}`", got=chosen[option], allowed=f"{minimum} or more", fix="leave it out")
    return engine(**chosen)


def outcome(job: Job, number: int, send: Callable[[Event], Any], stopping: Callable[[], bool]) -> Event:
    """Run a job, and return the event `done` with its result, or `failed`. `send` gets what the job reports.

    `number` and `stopping` are those of its `JobContext`. Only `KeyboardInterrupt` is passed on.
    """
    context = JobContext(number, lambda value: send(Event(job.key, "progress", value)), stopping)
    try:
        return Event(job.key, "done", job.call(context, *job.args))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a failing job must not stop the others
        return Event(job.key, "failed", failure(error))


def failure(error: BaseException) -> Exception:
    """Why a job failed, as an exception that can be sent to another process.

    It is a user error, also for an error in a user's own part, or a `RuntimeError` with a traceback.
    """
    explained = user_parts.explanation(error) or error
    if not isinstance(explained, ApeError):
        return RuntimeError("".join(traceback.format_exception(error)))
    # an error class of a plug-in may be one that cannot be sent
    return explained if type(explained).__module__ == ApeError.__module__ else ApeError(Lines(explained))


def lost(job: Job, text: str, fix: str = "run the same command again to continue; use fewer `workers`") -> Event:
    """The event that a job failed for a reason outside of it. `text` says why."""
    return Event(job.key, "failed", ApeError(text, got=job.key, fix=fix))
