"""Run jobs as tasks of a Ray cluster: the one at `address`, or one that is started here and stopped after the work.

A job is run again if its worker or its node dies. This is counted here and not by Ray, which counts deaths by lack of
memory apart, and without a limit. Every node must have this program installed, and must see the folders that the jobs
name: by a shared file system, at the same path, or as s3:// and gs:// addresses. Jobs run in the working directory of
the caller, so relative paths have the same meaning.

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
from contextlib import chdir, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

from ape_cli.core.errors import ApeError, UsageError, error_text
from ape_cli.core.executors import Event, Executor, Job, lost, outcome
from ape_cli.core.extras import how_to_install

_CONNECT = 10.0  # seconds within which a cluster must accept a connection
_CHECK = 2.0  # seconds between two checks of a job whether to stop
_PATIENCE = 20.0  # seconds without an answer after which a cluster is lost
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

    minimums: ClassVar = {"workers": 1, "retries": 0, "trials_per_task": 1, "cpus_per_trial": 0, "gpus_per_trial": 0}

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
            raise UsageError("bad `gpus_per_trial`", got=gpus_per_trial, allowed="a fraction of one, or a whole number")
        if address is not None and address != "auto":
            _host_and_port(address)
        self.slots, self.retries, self.address = workers, retries, address
        self.cpus, self.gpus, self.batch = cpus_per_trial, gpus_per_trial, trials_per_task

    def _reported(self, ray: Any, board: Any) -> list[Event]:
        """The events that have reached the board. Raises `ApeError` if it does not answer."""
        try:
            return ray.get(board.take.remote(), timeout=_PATIENCE)
        except ray.exceptions.RayError as error:
            got, fix = f"{self.address or 'its own'}: {error_text(error)}", "run the same command again to continue"
            raise ApeError("the Ray cluster was lost", got=got, fix=fix) from error

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
            _check_room(ray, self.cpus, self.gpus)
            node = ray.get_runtime_context().get_node_id()
            here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
            board = ray.remote(_Board).options(num_cpus=0, scheduling_strategy=here).remote()
            # Ray itself would run a task that exceeds the memory again without end
            remote = ray.remote(_batch).options(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)
            waiting = deque(list(jobs[i : i + self.batch]) for i in range(0, len(jobs), self.batch))
            running: dict[Any, list[Job]] = {}
            losses = Counter[str]()  # of each job
            ended: set[str] = set()  # keys of jobs; the end of a job is on the board, and in the result of its task
            try:
                while waiting or running:
                    while waiting and len(running) < (self.slots or len(jobs)):
                        batch = waiting.popleft()
                        running[remote.remote(board, batch, str(Path.cwd()))] = batch
                    ready, _ = ray.wait(list(running), timeout=_POLL)
                    events = self._reported(ray, board)
                    for task in ready:
                        batch = running.pop(task)
                        try:
                            events += ray.get(task)
                        except ray.exceptions.RayError as error:
                            for job in (job for job in batch if job.key not in ended):
                                losses[job.key] += 1
                                if losses[job.key] <= self.retries:
                                    waiting.append([job])  # alone, because any job of a batch may be the cause
                                else:
                                    why = error_text(error).partition(". ")[0]
                                    events.append(lost(job, f"its task was lost, {losses[job.key]} times: {why}"))
                    for event in events:
                        if event.key not in ended:
                            if event.event_type in ("done", "failed"):
                                ended.add(event.key)
                            yield event
            except ApeError:
                raise
            except BaseException:
                _stop(ray, board, list(running))
                raise


def _stop(ray: Any, board: Any, running: list[Any]) -> None:
    """Ask running tasks to stop, so that runs save their state, and cancel those that do not stop in time."""
    board.stop.remote()
    _, late = ray.wait(running, num_returns=len(running), timeout=_STOP) if running else ([], [])
    for task in late:
        ray.cancel(task)


class _Board:
    """A Ray actor on the caller's node that holds events until they are fetched, and the request to stop."""

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
        events, self.events = self.events, []
        return events


def _batch(board: Any, jobs: list[Job], folder: str) -> list[Event]:
    """Run the jobs of one task, one after the other, in the working directory `folder`.

    All final events are returned. They are also sent to the board, where some may be missing, but never others.
    """
    import ray

    os.chdir(folder)
    asked, stopped, ended = time.monotonic(), False, []

    def stopping() -> bool:
        """Whether the board says to stop. It is asked every few seconds."""
        nonlocal asked, stopped
        if time.monotonic() - asked > _CHECK:
            asked, stopped = time.monotonic(), ray.get(board.stopping.remote())
        return stopped

    for job in jobs:
        board.put.remote(Event(job.key, "started"))
        try:
            # a task sees only the GPUs that Ray assigned to it
            ended.append(outcome(job, 0, board.put.remote, stopping))
        except KeyboardInterrupt:  # all jobs were asked to stop
            break
        board.put.remote(ended[-1])
    return ended


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
        raise _unreachable(address, error_text(error)) from error
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
