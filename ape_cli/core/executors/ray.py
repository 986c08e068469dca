"""Run jobs as tasks of a Ray cluster: the one at `address`, or one that is started here and stopped after the work.

A task is run again if its worker or its node dies. Every node must have this program installed, and must see the
folders that the jobs name: by a shared file system, at the same path, or as s3:// and gs:// addresses. Jobs run in the
working directory of the caller, so relative paths have the same meaning.

Token authentication is on unless RAY_AUTH_MODE says otherwise, and usage statistics are off unless
RAY_USAGE_STATS_ENABLED says otherwise. A cluster that is started here gets its own token, which is never written to a
file.

Ray does not reuse workers for tasks that use a fraction of a GPU, and the import of torch takes seconds. Therefore
several short jobs can form one task.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from ape_cli.core.errors import UsageError
from ape_cli.core.executors import Event, Executor, Job, at_least, lost, outcome
from ape_cli.core.executors._cluster import fits, host_and_port, joined
from ape_cli.core.extras import how_to_install

_ASK = 2.0  # seconds between two checks by a job whether to stop
_POLL = 0.25  # seconds between two polls for events
_STOP = 30.0  # seconds that running tasks have to save their state


class Ray(Executor):
    """Runs jobs as tasks of a Ray cluster.

    `workers` is the maximum number of tasks at once; by default the cluster decides. `retries` is how often a task is
    run again after its worker or node died. `address` is HOST:PORT or `auto`; without it, a cluster is started here.
    `cpus_per_trial` and `gpus_per_trial` are the resources of a task, and `trials_per_task` is the number of jobs in a
    task.

    Raises `UsageError` if ray is not installed or an option is invalid.
    """

    def __init__(
        self,
        workers: int | None = None,
        retries: int = 3,
        address: str | None = None,
        cpus_per_trial: float = 1.0,
        gpus_per_trial: float = 0.0,
        trials_per_task: int = 1,
    ) -> None:
        """Check the options; the cluster is joined by `work`."""
        if importlib.util.find_spec("ray") is None:
            raise UsageError("ray is not installed", got="`engine=ray`", fix=how_to_install("ray"))
        at_least("workers", workers, 1)
        at_least("retries", retries, 0)
        at_least("trials_per_task", trials_per_task, 1)
        at_least("cpus_per_trial", cpus_per_trial, 0)
        at_least("gpus_per_trial", gpus_per_trial, 0)
        if gpus_per_trial > 1 and gpus_per_trial != int(gpus_per_trial):
            allowed = "a share of one, or whole ones"
            raise UsageError("bad `gpus_per_trial`", got=gpus_per_trial, allowed=allowed, fix="for example 0.25, or 2")
        if address is not None and address != "auto":
            host_and_port(address)
        self.workers, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    @property
    def slots(self) -> int | None:
        """How many tasks run at once, or None if the cluster decides."""
        return self.workers

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.

        Raises `ApeError` if the cluster cannot be joined, and `UsageError` if no node has room for a task.
        """
        with redirect_stdout(sys.stderr), joined(self.address) as ray:  # Ray prints messages about its nodes
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here).remote()
            task = ray.remote(_batch).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries)
            fits(ray, {"CPU": self.cpus, "GPU": self.gpus})
            tasks = _Tasks(ray, board, task, self.workers or len(jobs))
            tasks.add([list(jobs[i : i + self.batch]) for i in range(0, len(jobs), self.batch)])
            try:
                while tasks.unfinished():
                    yield from tasks.events()
            except BaseException:
                tasks.cancel()
                raise


class _Tasks:
    """The tasks for a list of jobs: waiting here, running on the cluster, and the keys of jobs that have ended."""

    def __init__(self, ray: Any, board: Any, task: Any, at_once: int) -> None:
        """Start with no tasks. At most `at_once` tasks run on the cluster."""
        self.ray, self.board, self.task, self.at_once = ray, board, task, at_once
        self.waiting: deque[list[Job]] = deque()
        self.running: dict[Any, list[Job]] = {}
        self.ended: set[str] = set()

    def add(self, batches: list[list[Job]]) -> None:
        """Add tasks, each a list of jobs."""
        self.waiting.extend(batches)

    def unfinished(self) -> bool:
        """Whether any task is waiting or running."""
        return bool(self.waiting or self.running)

    def events(self) -> Iterator[Event]:
        """Start waiting tasks, wait for a moment, and yield what happened since the last call."""
        while self.waiting and len(self.running) < self.at_once:
            batch = self.waiting.popleft()
            self.running[self.task.remote(self.board, batch, str(Path.cwd()))] = batch
        ready, _ = self.ray.wait(list(self.running), timeout=_POLL)
        yield from map(self._counted, self._fresh(self.ray.get(self.board.take.remote())))
        for task in ready:
            yield from map(self._counted, self._fresh(self._result(task)))

    def _fresh(self, events: list[Event]) -> Iterator[Event]:
        """Drop the events of jobs that have ended: a task that is run again sends them a second time."""
        return (event for event in events if event.key not in self.ended)

    def _counted(self, event: Event) -> Event:
        """Remember the job as ended if this is its last event."""
        if event.kind in ("done", "failed"):
            self.ended.add(event.key)
        return event

    def _result(self, task: Any) -> list[Event]:
        """The final events of the jobs of a task.

        If a task of several jobs was lost for good, each of its unfinished jobs is run again as its own task, because
        only one of them may be the cause.
        """
        batch = self.running.pop(task)
        try:
            found: list[Event] = self.ray.get(task)
        except self.ray.exceptions.RayError as error:
            left = [job for job in batch if job.key not in self.ended]
            if len(batch) > 1:
                self.add([[job] for job in left])
                return []
            text = f"its task was lost: {type(error).__name__}: {str(error).strip()}"
            return [Event(job.key, "failed", lost(job, text)) for job in left]
        return found

    def cancel(self) -> None:
        """Ask running tasks to stop, so that runs save their state, and cancel those that do not stop in time."""
        with suppress(self.ray.exceptions.RayError):
            running = list(self.running)
            self.board.stop.remote()
            _, running = self.ray.wait(running, num_returns=len(running), timeout=_STOP) if running else ([], [])
            for task in running:
                self.ray.cancel(task)


class _Board:
    """A Ray actor on the caller's node that holds events until they are fetched."""

    def __init__(self) -> None:
        """Start without events."""
        self.events: list[Event] = []
        self.stopped = False

    def stop(self) -> None:
        """Ask all jobs to stop."""
        self.stopped = True

    def stopping(self) -> bool:
        """Whether the jobs were asked to stop."""
        return self.stopped

    def put(self, event: Event) -> None:
        """Add an event."""
        self.events.append(event)

    def take(self) -> list[Event]:
        """Remove and return all events."""
        found, self.events = self.events, []
        return found


class _ToBoard:
    """The `JobContext` of a job in a Ray task."""

    number = 0  # a task sees only the GPUs that Ray assigned to it

    def __init__(self, board: Any, key: str) -> None:
        self.board, self.key = board, key
        self.asked, self.answer = time.monotonic(), False

    def put(self, event: Event) -> None:
        """Send an event to the board."""
        self.board.put.remote(event)

    def tell(self, value: Any) -> None:
        self.put(Event(self.key, "told", value))

    def stopping(self) -> bool:
        """Whether the board says to stop.

        The board is asked every few seconds. If it is gone, the last answer remains.
        """
        import ray

        if time.monotonic() - self.asked > _ASK:
            self.asked = time.monotonic()
            with suppress(ray.exceptions.RayError):
                self.answer = ray.get(self.board.stopping.remote(), timeout=_ASK)
        return self.answer


def _batch(board: Any, jobs: list[Job], folder: str) -> list[Event]:
    """Run the jobs of one task, one after the other, in the working directory `folder`.

    All final events are returned. They are also sent to the board, where some may be missing, but never others.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        text = f"{folder} is not on node {os.uname().nodename} ({error.strerror})"
        fix = "share the folder among all nodes, at the same path"
        return [Event(job.key, "failed", lost(job, text, fix)) for job in jobs]
    ended = []
    for job in jobs:
        link = _ToBoard(board, job.key)
        link.put(Event(job.key, "started"))
        try:
            ended.append(outcome(link, job))
        except KeyboardInterrupt:  # all jobs were asked to stop
            break
        link.put(ended[-1])
    return ended
