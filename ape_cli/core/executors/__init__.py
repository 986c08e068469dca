"""Engines: where independent jobs are worked off. `local`: processes of this machine; `ray`: tasks of a Ray cluster.

An engine knows nothing of what a job does. A job may be run again when the process or the machine that it ran on
is gone, so what it does must be the same done twice: a shard is whole or absent, a run goes on from what it stored.
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
from ape_cli.core.errors import ApeError, UsageError


class JobContext(Protocol):
    """What a job is given to speak to whoever waits for it."""

    @property
    def number(self) -> int:
        """Which of the machine's workers it is, from 0; a cluster that gives out GPUs by itself says 0."""

    def tell(self, value: Any) -> None:
        """Send something on; it arrives as an event, if it arrives."""

    def stopping(self) -> bool:
        """Whether the job was asked to end soon; it may then raise `KeyboardInterrupt`."""


@dataclass(frozen=True)
class Job:
    """`call(link, *args)`, a function of a module, so that other processes can import it."""

    key: str
    call: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Event:
    """`value` is what was told, what a job came to, or its `Failure`. A job that is run again starts again."""

    key: str
    kind: Literal["started", "told", "done", "failed"]
    value: Any = None


@dataclass(frozen=True)
class Failure:
    """Why a job failed: the user's error if it was one, and the text that tells."""

    error: ApeError | None
    text: str

    def raised(self) -> Exception:
        return self.error or RuntimeError(self.text)


class Executor(ABC):
    """Works jobs off, several at once."""

    @property
    @abstractmethod
    def slots(self) -> int | None:
        """How many at once; None where that is a cluster's to know."""

    @abstractmethod
    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Every job ends with one `done` or `failed`. Closing the iterator asks running jobs to stop, and waits."""


def names() -> list[str]:
    return plugins.names(sys.modules[__name__])


def make(name: str, **options: Any) -> Executor:
    """The engine of a name. Options that are None are left out; one that the engine does not have is an error."""
    found = plugins.load(sys.modules[__name__], "engine", name, Executor)  # type: ignore[type-abstract]
    known = inspect.signature(found).parameters
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in known:
            raise UsageError(
                f"engine {name} has no such option",
                got=f"--{key.replace('_', '-')}",
                allowed=", ".join(f"--{k.replace('_', '-')}" for k in known),
                fix="leave it out, or choose another --engine",
            )
    return found(**given)


def at_least(option: str, value: float | None, least: float) -> None:
    """A `UsageError` if an engine's option is given and too small, or no number."""
    if value is not None and not least <= value < math.inf:
        raise UsageError(f"bad --{option}", got=value, allowed=f"{least} or more", fix="leave it out")


def outcome(link: JobContext, job: Job) -> Event:
    """Run a job: what it came to, or its failure. Only `KeyboardInterrupt` gets through."""
    try:
        return Event(job.key, "done", job.call(link, *job.args))
    except KeyboardInterrupt:
        raise
    except ApeError as error:
        return Event(job.key, "failed", Failure(_portable(error), str(error)))
    except BaseException:  # whatever it is, the others go on
        return Event(job.key, "failed", Failure(None, traceback.format_exc()))


def _portable(error: ApeError) -> ApeError:
    """The error as it can be sent to another process, its message and exit status kept."""
    try:
        return error if str(pickle.loads(pickle.dumps(error))) == str(error) else ApeError(str(error))
    except Exception:  # an error of somebody's own with arguments of its own
        return ApeError(str(error))
