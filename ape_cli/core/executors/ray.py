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
import logging
import os
import re
import secrets
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, ClassVar

from ape_cli.core.errors import ApeError, UsageError, error_text
from ape_cli.core.executors import Event, Executor, Job, lost, outcome
from ape_cli.core.extras import how_to_install

_CONNECT = 10.0  # seconds within which a cluster must accept a connection
_CHECK = 2.0  # seconds between two checks of a cluster whether it still does, and of a job whether to stop
_PATIENCE = 20.0  # seconds without a connection after which a cluster is lost; the head of a cluster can be restarted
_POLL = 0.25  # seconds between two polls for events
_STOP = 30.0  # seconds that running tasks have to save their state
_REPEAT = "run the same command again to continue; what has finished is kept"


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
            _host_and_port(address)
        self.slots, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.

        Raises `ApeError` if the cluster cannot be joined or is lost, and `UsageError` if no node has room for a task.
        """
        with (
            Path(os.devnull).open("w") as nowhere,
            redirect_stdout(nowhere),
            _joined(self.address) as ray,
        ):  # Ray prints
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            # Ray starts the board again if its process dies, and then its events are lost
            board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here, max_restarts=-1).remote()
            # Ray itself would run a task that exceeds the memory again without end
            remote = ray.remote(_batch).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)
            _check_room(ray, self.cpus, self.gpus)
            pulse = _Pulse(ray.get_runtime_context().gcs_address, self.address)
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
                            raise _lost_cluster(self.address, error_text(error)) from error
                        except ray.exceptions.RayError as error:
                            events += batches.lost(ray, [job for job in batch if job.key not in ended], error)
                    for event in events:
                        if event.key not in ended:
                            if event.kind in ("done", "failed"):
                                ended.add(event.key)
                            yield event
            except _LostClusterError:
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
                why, times = error_text(error).partition(". ")[0], self.losses[job.key]
                fix = "use nodes with more memory, or a smaller model or `batch_size`" if is_memory else _REPEAT
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


# The connection to a cluster


@contextmanager
def _joined(address: str | None) -> Iterator[Any]:
    """Connect to the Ray cluster at `address`, or start one if it is None, and yield the module `ray`.

    After the block the connection is closed, and a cluster that was started here is stopped.

    Raises `ApeError` if the cluster cannot be joined or started, and `UsageError` for an invalid address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if address is None and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if address is not None and address != "auto":  # Ray itself would try for minutes
        try:
            socket.create_connection(_host_and_port(address), timeout=_CONNECT).close()
        except OSError as error:
            raise _unreachable(address, str(error)) from error
    import ray
    import ray.util.scheduling_strategies

    # a user's own schemes are on this path; relative entries refer to the folder where the command was started
    path = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)  # noqa: PTH100
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Ray puts the current folder on the path of its workers. The folder of this package is on the path anyway.
        with chdir(Path(__file__).parents[3]):
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
        for number, handler in handlers.items():  # Ray replaces them by its own
            signal.signal(number, handler or signal.SIG_DFL)
    try:
        yield ray
    finally:
        ray.shutdown()


def _host_and_port(address: str) -> tuple[str, int]:
    """Split an address HOST:PORT. Raises `UsageError` if it has another form."""
    match = re.fullmatch(r"\[?([^@/]+?)\]?:(\d{1,5})", address)
    if match is None:
        shown = address.rpartition("@")[2]  # what stands before an @ may be a secret
        raise UsageError("bad `address`", got=shown, allowed="HOST:PORT or auto", fix="as `ray start` printed it")
    return match[1], int(match[2])


def _check_room(ray: Any, cpus: float, gpus: float) -> None:
    """Check that some node of the cluster has so many CPUs and GPUs, because Ray would wait forever otherwise.

    Raises `UsageError` if no node has them.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        have = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes)
        what, got = "no node of the Ray cluster has room for a trial", f"{cpus:g} CPUs, {gpus:g} GPUs"
        raise UsageError(what, got=got, allowed=f"the resources of a node: {have}", fix="ask for less, or add a node")


def _unreachable(address: str | None, reason: str) -> ApeError:
    """The error for a cluster that cannot be joined or started."""
    what, of = ("cannot join the Ray cluster", address) if address else ("cannot start Ray", "a cluster of our own")
    fix = "give the address of `ray start --head`, and its token (RAY_AUTH_TOKEN or ~/.ray/auth_token)"
    return ApeError(what, got=f"{of}: {reason}", fix=fix)


class _LostClusterError(ApeError):
    """The cluster was lost."""


class _Pulse:
    """Checks that the head of the cluster accepts connections. Ray ends this process a minute after it stops to."""

    def __init__(self, head: str, address: str | None) -> None:
        """`head` is HOST:PORT of the control store of the cluster, which the user calls `address`."""
        self.head, self.address = _host_and_port(head), address
        self.checked = self.answered = time.monotonic()

    def check(self) -> None:
        """Raise an `ApeError` if the head has not accepted a connection for `_PATIENCE` seconds."""
        now = time.monotonic()
        if now - self.checked < _CHECK:
            return
        self.checked = now
        try:
            socket.create_connection(self.head, timeout=_CHECK).close()
            self.answered = now
        except OSError as error:
            if now - self.answered > _PATIENCE:
                raise _lost_cluster(self.address, str(error)) from error


def _lost_cluster(address: str | None, reason: str) -> _LostClusterError:
    """The error for a cluster that was lost."""
    fix = f"start the cluster again, and {_REPEAT}" if address else _REPEAT
    return _LostClusterError("the Ray cluster was lost", got=f"{address or 'a cluster of our own'}: {reason}", fix=fix)
