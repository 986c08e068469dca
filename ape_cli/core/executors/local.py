"""Jobs in processes of this machine, each with its share of the cores.

A process takes one job after the other. If one dies (killed, out of memory) its job is begun again in another, a few
times; if this process dies, they end with it.
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
from multiprocessing.connection import Connection, wait
from typing import Any

from ape_cli.core.executors import Event, Executor, Failure, Job, at_least, outcome

_ASKED = 5.0  # seconds in which another SIGTERM is the same one: a group of processes gets it, and so does each


class Local(Executor):
    """`workers` processes; the cores are shared out among them unless `threads` says how many each may take."""

    def __init__(self, workers: int | None = None, threads: int | None = None, retries: int = 2) -> None:
        at_least("workers", workers, 1)
        at_least("threads", threads, 1)
        at_least("retries", retries, 0)
        self._slots = workers or max(1, cores() // (threads or 1))
        self.threads, self.retries = threads, retries

    @property
    def slots(self) -> int:
        return self._slots

    def work(self, jobs: Sequence[Job]) -> Generator[Event]:
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
                        yield Event(job.key, "failed", Failure(None, _death(code, tries[job.key])))
        finally:
            pool.close()


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _death(code: int | None, times: int) -> str:
    names = {number.value: number.name for number in signal.Signals}
    how = f"signal {names.get(-code, -code)}" if code is not None and code < 0 else f"exit status {code}"
    hint = " (out of memory?)" if code == -signal.SIGKILL else ""
    return f"its process ended with {how}{hint}, {times} times"


class _Worker:
    """A process, and the job that it has."""

    def __init__(self, number: int, environment: dict[str, str]) -> None:
        self.number, self.environment = number, environment
        self.held: Job | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.number, self.environment))
        # it begins with Ctrl-C blocked, and keeps it so: that is the parent's to handle
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
        self.held = job
        with suppress(BrokenPipeError):  # it is dead, as `events` will see
            self.pipe.send(job)

    def receive(self) -> Event | None:
        """What it says; None if it is dead."""
        try:
            event: Event = self.pipe.recv()
        except (EOFError, OSError):  # also in the middle of a message
            return None
        if event.kind in ("done", "failed"):
            self.held = None
        return event

    def replace(self) -> int | None:
        """Another process in its place; what the dead one ended with."""
        self.process.join()
        code, self.held = self.process.exitcode, None
        self.pipe.close()
        self._start()
        return code


class _Pool:
    def __init__(self, count: int, threads: int) -> None:
        # before any library of the new process looks at them
        own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        self.workers = [_Worker(i, own) for i in range(count)]

    def busy(self) -> list[_Worker]:
        return [w for w in self.workers if w.held is not None]

    def free(self) -> list[_Worker]:
        return [w for w in self.workers if w.held is None]

    def events(self) -> list[tuple[_Worker, Event | None]]:
        """What the busy ones say next, at least one of them; None for one that died."""
        pipes: dict[Any, _Worker] = {w.pipe: w for w in self.busy()}
        return [(pipes[ready], pipes[ready].receive()) for ready in wait(list(pipes))]

    def close(self) -> None:
        for worker in self.workers:
            worker.pipe.close()  # an idle one ends by itself
            if worker.held is not None and worker.process.is_alive():
                worker.process.terminate()  # asks; a job that takes long looks at `stopping`
        for worker in self.workers:
            worker.process.join()


class _ToParent:
    """The link of a job in a worker."""

    def __init__(self, pipe: Connection, number: int) -> None:
        self.pipe, self.number, self.key, self.asked, self.since = pipe, number, "", False, 0.0

    def tell(self, value: Any) -> None:
        self._send(Event(self.key, "told", value))

    def stopping(self) -> bool:
        return self.asked

    def _send(self, event: Event) -> None:
        try:
            self.pipe.send(event)
        except ConnectionError:  # nobody listens any more
            self.asked = True

    def serve(self, job: Job) -> None:
        self.key = job.key
        self._send(outcome(self, job))


def _serve(pipe: Connection, number: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    os.dup2(2, 1)  # whatever a job prints, results are the parent's to print
    link = _ToParent(pipe, number)

    def ask(number: int, frame: Any) -> None:
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
    """A worker whose parent was killed would write on into what is no longer locked."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
