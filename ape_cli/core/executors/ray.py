"""Run jobs as tasks of a Ray cluster: the one at `address`, or one that is started here and stopped after the work.

A task is run again if its worker or its node dies. This is counted here and not by Ray, which counts deaths by lack of
memory apart, and without a limit. Every node must have this program installed, and must see the
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
import time
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from ape_cli.core.errors import UsageError, said
from ape_cli.core.executors import Event, Executor, Job, lost, outcome
from ape_cli.core.executors._ray_cluster import (
    REPEAT,
    LostClusterError,
    Pulse,
    check_room,
    host_and_port,
    joined,
    lost_cluster,
    silent,
)
from ape_cli.core.extras import how_to_install

_CHECK = 2.0  # seconds between two checks by a job whether to stop
_POLL = 0.25  # seconds between two polls for events
_STOP = 30.0  # seconds that running tasks have to save their state


class Ray(Executor):
    """Runs jobs as tasks of a Ray cluster.

    `workers` is the maximum number of tasks at once; by default the cluster decides. `retries` is how often a job is
    run again after its worker or node died. `address` is HOST:PORT or `auto`; without it, a cluster is started here.
    `cpus_per_trial` and `gpus_per_trial` are the resources of a task, and `trials_per_task` is the number of jobs in a
    task.

    Raises `UsageError` if ray is not installed or an option is invalid.
    """

    least: ClassVar = {"workers": 1, "retries": 0, "trials_per_task": 1, "cpus_per_trial": 0, "gpus_per_trial": 0}

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
        if gpus_per_trial > 1 and gpus_per_trial % 1:
            raise UsageError("bad `gpus_per_trial`", got=gpus_per_trial, allowed="a share of one, or whole ones")
        if address is not None and address != "auto":
            host_and_port(address)
        self.slots, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.

        Raises `ApeError` if the cluster cannot be joined or is lost, and `UsageError` if no node has room for a task.
        """
        with silent(), joined(self.address) as ray:
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            # Ray starts the board again if its process dies, and then its events are lost
            board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here, max_restarts=-1).remote()
            # Ray itself would run a task that exceeds the memory again without end
            remote = ray.remote(_batch).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)
            check_room(ray, self.cpus, self.gpus)
            pulse = Pulse(ray.get_runtime_context().gcs_address, self.address)
            batches = _Batches([list(jobs[i : i + self.batch]) for i in range(0, len(jobs), self.batch)], self.retries)
            running: dict[Any, list[Job]] = {}
            ended: set[str] = set()  # keys of jobs; a task that is run again sends their events a second time
            try:
                while batches or running:
                    while len(running) < (self.slots or len(jobs)) and (batch := batches.following(bool(running))):
                        running[remote.remote(board, batch, str(Path.cwd()))] = batch
                    ready, _ = ray.wait(list(running), timeout=_POLL)
                    pulse.check()
                    events: list[Event] = []
                    with suppress(ray.exceptions.RayError):  # the board is starting again
                        events += ray.get(board.take.remote(), timeout=_CHECK)
                    for task in ready:
                        batch = running.pop(task)
                        try:
                            events += ray.get(task)
                        except ray.exceptions.LocalRayletDiedError as error:
                            raise lost_cluster(self.address, said(error)) from error
                        except ray.exceptions.RayError as error:
                            events += batches.lost(ray, [job for job in batch if job.key not in ended], error)
                    for event in events:
                        if event.key not in ended:
                            if event.kind in ("done", "failed"):
                                ended.add(event.key)
                            yield event
            except LostClusterError:
                raise
            except BaseException:
                _cancel(ray, board, list(running))
                raise


class _Batches:
    """The batches of jobs that are not running, and how often the tasks of their jobs were lost.

    If a node runs out of memory, Ray kills workers, and others than the one that takes the memory may be among them.
    Therefore a job whose worker was killed for this reason is run again while no other job is running.
    """

    def __init__(self, batches: list[list[Job]], retries: int) -> None:
        """Start with all batches waiting."""
        self.waiting, self.alone, self.retries = deque(batches), deque[Job](), retries
        self.losses, self.suspects = Counter[str](), set[str]()  # keys of jobs; `suspects`: those that run alone

    def __bool__(self) -> bool:
        """Whether a batch is left."""
        return bool(self.waiting or self.alone)

    def following(self, others: bool) -> list[Job]:
        """Remove and return the next batch, empty if there is none now. `others`: whether other jobs are running."""
        if self.waiting:
            return self.waiting.popleft()
        return [self.alone.popleft()] if self.alone and not others else []

    def lost(self, ray: Any, left: list[Job], error: Any) -> list[Event]:
        """Plan to run the jobs of a lost task again. `left`: those that had not ended, of which the first was running.

        Returns the event that this job failed, if it is not run again.
        """
        is_error = isinstance(error, ray.exceptions.RayTaskError)  # it would fail again, and any job may be the cause
        if is_error and len(left) > 1:
            self.waiting += [[job] for job in left]
            return []
        self.waiting += [[job] for job in left[1:]]
        for job in left[:1]:
            self.losses[job.key] += 1
            is_memory = isinstance(error, ray.exceptions.OutOfMemoryError)
            maybe_another = is_memory and job.key not in self.suspects
            if is_error or (self.losses[job.key] > self.retries and not maybe_another):
                why, times = said(error).partition(". ")[0], self.losses[job.key]
                fix = "use nodes with more memory, or a smaller model or `batch_size`" if is_memory else REPEAT
                return [lost(job, f"its task was lost, {times} time{'s' * (times > 1)}: {why}", fix)]
            if is_memory or job.key in self.suspects:
                self.suspects.add(job.key)
                self.alone.append(job)
            else:
                self.waiting.append([job])
        return []


def _cancel(ray: Any, board: Any, running: list[Any]) -> None:
    """Ask running tasks to stop, so that runs save their state, and cancel those that do not stop in time."""
    with suppress(ray.exceptions.RayError):
        board.stop.remote()
        _, late = ray.wait(running, num_returns=len(running), timeout=_STOP) if running else ([], [])
        for task in late:
            ray.cancel(task)


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
        events, self.events = self.events, []
        return events


class _StopSignal:
    """Whether the board says to stop. It is asked every few seconds; if it is gone, the last answer remains."""

    def __init__(self, board: Any) -> None:
        self.board, self.checked, self.answer = board, time.monotonic(), False

    def __call__(self) -> bool:
        import ray

        if time.monotonic() - self.checked > _CHECK:
            self.checked = time.monotonic()
            with suppress(ray.exceptions.RayError):
                self.answer = ray.get(self.board.stopping.remote(), timeout=_CHECK)
        return self.answer


def _batch(board: Any, jobs: list[Job], folder: str) -> list[Event]:
    """Run the jobs of one task, one after the other, in the working directory `folder`.

    All final events are returned. They are also sent to the board, where some may be missing, but never others.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        text = f"{folder} is not on node {os.uname().nodename} ({error.strerror})"
        return [lost(job, text, "share the folder among all nodes, at the same path") for job in jobs]
    ended = []
    for job in jobs:
        board.put.remote(Event(job.key, "started"))
        try:
            # a task sees only the GPUs that Ray assigned to it
            ended.append(outcome(job, 0, board.put.remote, _StopSignal(board)))
        except KeyboardInterrupt:  # all jobs were asked to stop
            break
        board.put.remote(ended[-1])
    return ended
