"""Run jobs in processes of this machine, each with its share of the cores.

A process runs one job after the other. If a process dies (killed, out of memory), its job is started again in a new
process, a limited number of times. If the main process dies, all of them end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar

from ape_cli.core.executors import Event, Executor, Job, lost, outcome

_SAME_REQUEST = 5.0  # seconds in which a second SIGTERM is ignored: a process group and each process may be sent one


class Local(Executor):
    """Runs jobs in processes of this machine.

    `workers` is the number of processes; by default there are as many as the cores allow. `threads` is the number of
    threads of each process; by default the cores are divided among the processes. `retries` is how often a job is
    started again after its process died.

    """

    minimums: ClassVar = {"workers": 1, "threads": 1, "retries": 0}

    def __init__(self, workers: int | None = None, threads: int | None = None, retries: int = 2) -> None:
        """Store the options; processes are started by `work`."""
        self.slots: int = workers or max(1, cores() // (threads or 1))
        self.threads, self.retries = threads, retries

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them. A second interruption kills them.
        """
        count = min(self.slots, len(jobs))
        threads = str(self.threads or max(1, cores() // max(1, count)))
        # environment variables, because libraries read them when they are loaded
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        workers = [_Worker(number, environment) for number in range(count)]
        waiting, deaths = deque(jobs), Counter[str]()
        try:
            while waiting or any(worker.job for worker in workers):
                for worker in workers:
                    if waiting and worker.job is None:
                        job = waiting.popleft()
                        worker.begin(job)
                        yield Event(job.key, "started")
                busy = {worker.pipe: worker for worker in workers if worker.job}
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    job = worker.job
                    try:
                        event: Event = worker.pipe.recv()
                    except (EOFError, OSError):  # it died, maybe in the middle of a message
                        code = worker.restart()
                        deaths[job.key] += 1
                        if deaths[job.key] <= self.retries:
                            waiting.appendleft(job)
                        else:
                            yield lost(job, _death(code, deaths[job.key]))
                        continue
                    if event.event_type in ("done", "failed"):
                        worker.job = None
                    yield event
        finally:
            _end(workers)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _death(code: int, times: int) -> str:
    """Say how a process ended, for the user."""
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"its process ended with {how}{' (out of memory?)' * (code == -signal.SIGKILL)}, {times} times"


class _Worker:
    """A process, and the job that it runs."""

    job: Any  # a `Job`, or None

    def __init__(self, number: int, environment: dict[str, str]) -> None:
        """Start the process with these additional environment variables."""
        self.number, self.environment = number, environment
        self._start()

    def _start(self) -> None:
        self.job = None
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.number, self.environment))
        # the process starts with SIGINT blocked and keeps it blocked: the parent handles Ctrl-C
        resource_tracker.ensure_running()  # otherwise it is started with the first process, and unblocks SIGINT
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        other.close()

    def begin(self, job: Job) -> None:
        """Send a job to the process."""
        self.job = job
        with suppress(BrokenPipeError):  # the process is dead; its pipe will say so
            self.pipe.send(job)

    def restart(self) -> Any:
        """Start a new process, and return the exit code of the dead one."""
        self.process.join()
        code = self.process.exitcode
        self.pipe.close()
        self._start()
        return code

    def stop(self) -> None:
        """Ask the process to stop."""
        self.pipe.close()  # an idle process ends when its pipe is closed
        if self.job is not None and self.process.is_alive():
            self.process.terminate()  # SIGTERM is only a request; long jobs check `stopping`


def _end(workers: list[_Worker]) -> None:
    """Ask all processes to stop, and wait for them. If this is interrupted, kill them."""
    try:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.process.join()
    except BaseException:  # Python itself would wait for them before it ends; their files are written atomically
        for worker in workers:
            worker.process.kill()
        raise


def _serve(pipe: Connection, number: int, environment: dict[str, str]) -> None:
    """The main function of a worker process: run jobs until the pipe is closed or the process is asked to stop."""
    os.environ.update(environment)
    os.dup2(2, 1)  # jobs print to stderr, because stdout is for the results that the parent prints
    stop_requested: float | None = None

    def handle(number: int, frame: Any) -> None:
        """Handle SIGTERM: the first asks the job to stop, a later one interrupts it."""
        nonlocal stop_requested
        if stop_requested is None:
            stop_requested = time.monotonic()
        elif time.monotonic() - stop_requested > _SAME_REQUEST:
            raise KeyboardInterrupt

    def send(event: Event) -> None:
        nonlocal stop_requested
        try:
            pipe.send(event)
        except ConnectionError:  # the parent closed the pipe
            stop_requested = stop_requested or time.monotonic()

    signal.signal(signal.SIGTERM, handle)
    _end_with_the_parent()
    while stop_requested is None:
        try:
            job: Job = pipe.recv()
            send(outcome(job, number, send, lambda: stop_requested is not None))
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return


def _end_with_the_parent() -> None:
    """End this process when its parent dies. It must not continue to write files that are no longer locked."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
