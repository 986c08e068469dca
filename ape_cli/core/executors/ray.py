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
import os
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from ape_cli.core.errors import UsageError
from ape_cli.core.executors import Event, Executor, Failure, Job, at_least, outcome
from ape_cli.core.executors._cluster import fits, host_and_port, joined

_ASK = 2.0  # seconds between two questions whether to stop
_POLL = 0.25  # seconds between two looks at what the tasks told
_STOP = 30.0  # seconds that running tasks get to store what they have


class Ray(Executor):
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
            raise UsageError("ray is not installed", got="--engine ray", fix="pip install 'ray>=2.60'")
        at_least("workers", workers, 1)
        at_least("retries", retries, 0)
        at_least("trials-per-task", trials_per_task, 1)
        at_least("cpus-per-trial", cpus_per_trial, 0)
        at_least("gpus-per-trial", gpus_per_trial, 0)
        if gpus_per_trial > 1 and gpus_per_trial != int(gpus_per_trial):
            allowed = "a share of one, or whole ones"
            raise UsageError("bad --gpus-per-trial", got=gpus_per_trial, allowed=allowed, fix="for example 0.25, or 2")
        if address is not None and address != "auto":
            host_and_port(address)
        self.workers, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    @property
    def slots(self) -> int | None:
        return self.workers

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        with redirect_stdout(sys.stderr), joined(self.address) as ray:  # it prints what it has to say of its nodes
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
        """Ask what runs to stop, so that a run stores what it has; then make it."""
        with suppress(self.ray.exceptions.RayError):
            running = list(self.running)
            self.board.stop.remote()
            _, running = self.ray.wait(running, num_returns=len(running), timeout=_STOP) if running else ([], [])
            for task in running:
                self.ray.cancel(task)


class _Board:
    """An actor on the node of the one who asks: events, until they are taken."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def stopping(self) -> bool:
        return self.stopped

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
        self.asked, self.answer = time.monotonic(), False

    def put(self, event: Event) -> None:
        self.board.put.remote(event)

    def tell(self, value: Any) -> None:
        self.put(Event(self.key, "told", value))

    def stopping(self) -> bool:
        """As the board says, which is asked every few seconds; one that is gone cannot want anything to stop."""
        import ray

        if time.monotonic() - self.asked > _ASK:
            self.asked = time.monotonic()
            with suppress(ray.exceptions.RayError):
                self.answer = ray.get(self.board.stopping.remote(), timeout=_ASK)
        return self.answer


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
        try:
            ended.append(outcome(link, job))
        except KeyboardInterrupt:  # it was asked to stop, and so are the others
            break
        link.put(ended[-1])
    return ended
