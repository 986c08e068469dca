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
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from ape_cli.core.executors import Event, Executor, Job, at_least, lost, outcome

_ASKED = 5.0  # seconds in which a second SIGTERM is ignored: it may be sent to the process group and to each process


class Local(Executor):
    """Runs jobs in processes of this machine.

    `workers` is the number of processes; by default there are as many as the cores allow. `threads` is the number of
    threads of each process; by default the cores are divided among the processes. `retries` is how often a job is
    started again after its process died.

    Raises `UsageError` if a number is too small.
    """

    def __init__(self, workers: int | None = None, threads: int | None = None, retries: int = 2) -> None:
        """Check the options; processes are started by `work`."""
        at_least("workers", workers, 1)
        at_least("threads", threads, 1)
        at_least("retries", retries, 0)
        self._slots = workers or max(1, cores() // (threads or 1))
        self.threads, self.retries = threads, retries

    @property
    def slots(self) -> int:
        """How many jobs run at once."""
        return self._slots

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
        """Run all jobs and yield their events. Every job ends with exactly one `done` or `failed`.

        Closing the iterator asks the running jobs to stop, and waits for them.
        """
        count = min(self.slots, len(jobs))
        threads = self.threads or max(1, cores() // max(1, count))
        pool = _Pool(count, threads)
        waiting, tries = deque(jobs), dict.fromkeys((job.key for job in jobs), 0)
        try:
            while waiting or pool.busy():
                for worker in pool.free():
                    if waiting:
                        worker.begin(waiting.popleft())
                        yield Event(worker.job.key, "started")
                for worker, event in pool.events():
                    if event is not None:
                        yield event
                        continue
                    job, code = worker.job, worker.replace()
                    tries[job.key] += 1
                    if tries[job.key] <= self.retries:
                        waiting.appendleft(job)
                    else:
                        yield Event(job.key, "failed", lost(job, _death(code, tries[job.key])))
        finally:
            pool.close()


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _death(code: int | None, times: int) -> str:
    """Say how a process ended, for the user."""
    names = {number.value: number.name for number in signal.Signals}
    how = f"signal {names.get(-code, -code)}" if code is not None and code < 0 else f"exit status {code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"its process ended with {how}{hint}, {times} times"


class _Worker:
    """A process, and the job that it runs."""

    def __init__(self, number: int, environment: dict[str, str]) -> None:
        """Start the process with these additional environment variables."""
        self.number, self.environment = number, environment
        self.held: Job | None = None
        self._start()

    def _start(self) -> None:
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

    @property
    def job(self) -> Job:
        assert self.held is not None
        return self.held

    def begin(self, job: Job) -> None:
        """Send a job to the process."""
        self.held = job
        with suppress(BrokenPipeError):  # the process is dead; `events` will notice it
            self.pipe.send(job)

    def receive(self) -> Event | None:
        """The next event of the process, or None if it is dead."""
        try:
            event: Event = self.pipe.recv()
        except (EOFError, OSError):  # it may also die in the middle of a message
            return None
        if event.kind in ("done", "failed"):
            self.held = None
        return event

    def replace(self) -> int | None:
        """Start a new process, and return the exit code of the dead one."""
        self.process.join()
        code, self.held = self.process.exitcode, None
        self.pipe.close()
        self._start()
        return code


class _Pool:
    """All worker processes."""

    def __init__(self, count: int, threads: int) -> None:
        """Start `count` processes that use `threads` threads each."""
        # environment variables, because libraries read them when they are loaded
        own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        self.workers = [_Worker(i, own) for i in range(count)]

    def busy(self) -> list[_Worker]:
        """The workers that have a job."""
        return [w for w in self.workers if w.held is not None]

    def free(self) -> list[_Worker]:
        """The workers without a job."""
        return [w for w in self.workers if w.held is None]

    def events(self) -> list[tuple[_Worker, Event | None]]:
        """Wait for at least one busy worker, and return the next event of each that is ready.

        The event is None if the worker died.
        """
        pipes: dict[Any, _Worker] = {w.pipe: w for w in self.busy()}
        return [(pipes[ready], pipes[ready].receive()) for ready in wait(list(pipes))]

    def close(self) -> None:
        """Ask all processes to stop, and wait for them."""
        for worker in self.workers:
            worker.pipe.close()  # an idle process ends when its pipe is closed
            if worker.held is not None and worker.process.is_alive():
                worker.process.terminate()  # SIGTERM is only a request; long jobs check `stopping`
        for worker in self.workers:
            worker.process.join()


class _ToParent:
    """The `JobContext` of a job in a worker process."""

    def __init__(self, pipe: Connection, number: int) -> None:
        self.pipe, self.number, self.key, self.asked, self.since = pipe, number, "", False, 0.0

    def tell(self, value: Any) -> None:
        self._send(Event(self.key, "told", value))

    def stopping(self) -> bool:
        return self.asked

    def _send(self, event: Event) -> None:
        """Send an event to the parent."""
        try:
            self.pipe.send(event)
        except ConnectionError:  # the parent closed the pipe
            self.asked = True

    def serve(self, job: Job) -> None:
        """Run a job and send its outcome."""
        self.key = job.key
        self._send(outcome(self, job))


def _serve(pipe: Connection, number: int, environment: dict[str, str]) -> None:
    """The main function of a worker process: run jobs until the pipe is closed or the process is asked to stop."""
    os.environ.update(environment)
    os.dup2(2, 1)  # jobs print to stderr, because stdout is for the results that the parent prints
    link = _ToParent(pipe, number)

    def ask(number: int, frame: Any) -> None:
        """Handle SIGTERM: the first asks the job to stop, a later one interrupts it."""
        if link.asked and time.monotonic() - link.since > _ASKED:
            raise KeyboardInterrupt
        if not link.asked:
            link.asked, link.since = True, time.monotonic()

    signal.signal(signal.SIGTERM, ask)
    _end_with_the_parent()
    while not link.asked:
        try:
            link.serve(pipe.recv())
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
