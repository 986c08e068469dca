"""Jobs as tasks of a Ray cluster: of the one at `address`, or of one that is started here and ends with the work.

A task is run again when its worker or its node dies. Every node must have this program, and see the folders that the
jobs name: by a shared file system, at the same place, or as s3:// and gs:// addresses. Jobs run in the folder of the
one who asks, so relative names mean the same.

Token authentication is on unless RAY_AUTH_MODE says otherwise, and usage statistics are off unless
RAY_USAGE_STATS_ENABLED does. A cluster of our own gets a token of its own, which is never written down.

Ray keeps no worker of tasks that take a share of a GPU, and torch takes seconds to come in, so several short jobs make
one task.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from ape_cli.engine import Engine, Event, Failure, Job, at_least, outcome
from ape_cli.errors import ApeError, UsageError

_POLL = 0.25  # seconds between two looks at what the tasks told
_KNOCK = 10.0  # seconds that a cluster gets to answer at all
_STOP = 30.0  # seconds that running tasks get to store what they have


class Ray(Engine):
    """`workers`: at most so many tasks at once; without it, as many as the cluster has room for."""

    def __init__(
        self,
        workers: int | None = None,
        retries: int = 3,
        address: str | None = None,
        cpus_per_trial: float = 1.0,
        gpus_per_trial: float = 0.0,
        trials_per_task: int = 1,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise UsageError("ray is not installed", got="--engine ray", fix="pip install 'ape-cli[ray]'")
        at_least("workers", 1 if workers is None else workers, 1)
        at_least("retries", retries, 0)
        at_least("trials-per-task", trials_per_task, 1)
        at_least("cpus-per-trial", cpus_per_trial, 0)
        at_least("gpus-per-trial", gpus_per_trial, 0)
        if gpus_per_trial > 1 and gpus_per_trial != int(gpus_per_trial):
            raise UsageError("bad --gpus-per-trial", got=gpus_per_trial, allowed="a share of one, or whole ones")
        self.workers, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    @property
    def slots(self) -> int:
        """Tasks at once, as far as it is known before the cluster is."""
        return self.workers or max(1, int((os.cpu_count() or 1) / max(self.cpus, 0.01)))

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        with redirect_stdout(sys.stderr), _cluster(self.address) as ray:  # it prints what it has to say of its nodes
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here).remote()
            task = ray.remote(_batch).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)
            tasks = _Tasks(ray, board, task, self.workers or len(jobs))
            tasks.add([list(jobs[i : i + self.batch]) for i in range(0, len(jobs), self.batch)])
            try:
                while tasks.unfinished():
                    yield from tasks.events()
            except BaseException:
                tasks.cancel()
                raise


class _Tasks:
    """The tasks of some jobs: those that wait here, those that the cluster has, and the jobs that have ended."""

    def __init__(self, ray: Any, board: Any, task: Any, at_once: int) -> None:
        self.ray, self.board, self.task, self.at_once = ray, board, task, at_once
        self.waiting: deque[list[Job]] = deque()
        self.running: dict[Any, list[Job]] = {}
        self.ended: set[str] = set()

    def add(self, batches: list[list[Job]]) -> None:
        self.waiting.extend(batches)

    def unfinished(self) -> bool:
        return bool(self.waiting or self.running)

    def events(self) -> Iterator[Event]:
        """What happened since the last call, after a moment."""
        while self.waiting and len(self.running) < self.at_once:
            batch = self.waiting.popleft()
            self.running[self.task.remote(self.board, batch, str(Path.cwd()))] = batch
        ready, _ = self.ray.wait(list(self.running), timeout=_POLL)
        yield from map(self._counted, self._fresh(self.ray.get(self.board.take.remote())))
        for task in ready:
            yield from map(self._counted, self._fresh(self._result(task)))

    def _fresh(self, events: list[Event]) -> Iterator[Event]:
        """Without those of jobs that have ended: a batch that is run again tells them a second time."""
        return (event for event in events if event.key not in self.ended)

    def _counted(self, event: Event) -> Event:
        if event.kind in ("done", "failed"):
            self.ended.add(event.key)
        return event

    def _result(self, task: Any) -> list[Event]:
        """How the jobs of a task ended. Of one that was lost for good, jobs that may not be to blame go alone."""
        batch = self.running.pop(task)
        try:
            found: list[Event] = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            left = [job for job in batch if job.key not in self.ended]
            if len(batch) > 1:
                self.add([[job] for job in left])
                return []
            lost = Failure(None, f"its task was lost: {type(error).__name__}: {str(error).strip()}")
            return [Event(job.key, "failed", lost) for job in left]
        return found

    def cancel(self) -> None:
        """Ask what runs to stop; a run stores what it has."""
        with suppress(self.ray.exceptions.RayError):
            for task in self.running:
                self.ray.cancel(task)
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=_STOP)


class _Board:
    """An actor on the node of the one who asks: events, until they are taken."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, event: Event) -> None:
        self.events.append(event)

    def take(self) -> list[Event]:
        found, self.events = self.events, []
        return found


class _ToBoard:
    """The link of a job in a task."""

    number = 0  # Ray shows a task the GPUs that it was given, and no others

    def __init__(self, board: Any, key: str) -> None:
        self.board, self.key = board, key

    def put(self, event: Event) -> None:
        self.board.put.remote(event)

    def tell(self, value: Any) -> None:
        self.put(Event(self.key, "told", value))

    def stopping(self) -> bool:
        return False  # a task that is cancelled gets a `KeyboardInterrupt`


def _batch(board: Any, jobs: list[Job], folder: str) -> list[Event]:
    """One task: its jobs, one after the other. The board may be told less than what is returned, never more."""
    try:
        os.chdir(folder)
    except OSError as error:
        text = f"{folder} is not on node {os.uname().nodename} ({error.strerror}): nodes must share it"
        return [Event(job.key, "failed", Failure(None, text)) for job in jobs]
    ended = []
    for job in jobs:
        link = _ToBoard(board, job.key)
        link.put(Event(job.key, "started"))
        ended.append(outcome(link, job))
        link.put(ended[-1])
    return ended


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected; afterwards disconnected, and a cluster of our own stopped."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if address is not None and address != "auto":
        _knock(address)
    import ray
    import ray.util.scheduling_strategies

    # somebody's own schemes are on the path; a relative one means the folder that the command was given in
    path = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)  # noqa: PTH100
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(
            address=address or "local",
            runtime_env={"env_vars": {"PYTHONPATH": path}} if path else None,
            logging_level=logging.ERROR,
            log_to_driver=False,
            include_dashboard=None if address else False,
        )
    except (ConnectionError, ray.exceptions.RayError, RuntimeError, ValueError, TimeoutError) as error:
        raise _unreachable(address, str(error).strip().splitlines()[0]) from error
    finally:
        for number, handler in handlers.items():  # Ray puts its own in their place
            signal.signal(number, handler or signal.SIG_DFL)
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Whether anybody is there at all; Ray would ask for minutes."""
    host, _, port = address.rpartition(":")
    if "//" in address or not port.isdecimal():
        raise UsageError(
            "bad --address", got=repr(address), allowed="HOST:PORT or auto", fix="as `ray start` printed it"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from error


def _unreachable(address: str | None, reason: str) -> ApeError:
    return ApeError(
        "cannot join the Ray cluster" if address else "cannot start Ray",
        got=f"{address or 'a cluster of our own'}: {reason}",
        fix="give the address of `ray start --head`, and its token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or "
        "~/.ray/auth_token (`ray get-auth-token --generate`)",
    )
