"""Ray: how often a job is run again, in a cluster that only pretends to run tasks. Ray need not be installed.

`tests/nightly/core/executors/test_ray.py` has real clusters.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.core.executors import Event, Job, JobContext, ray


class RayError(Exception):
    """The base class of Ray's errors."""


class OutOfMemoryError(RayError):
    """A worker was killed, because its node ran out of memory."""


class WorkerCrashedError(RayError):
    """A worker died."""


class RayTaskError(RayError):
    """A task raised an error outside of its jobs."""


class LocalRayletDiedError(RayError):
    """The process that starts workers on this node died."""


ERRORS = {error.__name__: error for error in (RayError, OutOfMemoryError, WorkerCrashedError, RayTaskError)}
ERRORS["LocalRayletDiedError"] = LocalRayletDiedError


class Cluster:
    """What `ray` is for the executor. All tasks that are running end together, each as its jobs say.

    A job `hog` takes all memory, so that all tasks beside it are killed. A job `crash` kills its worker, and `broken`
    cannot be sent to one. `raylet` stops the whole cluster.
    """

    exceptions = SimpleNamespace(**ERRORS)

    def __init__(self) -> None:
        self.numbers, self.starts, self.options = itertools.count(), Counter[str](), list[dict[str, Any]]()
        self.running: dict[int, list[Job]] = {}
        self.results: dict[int, Any] = {}
        affinity = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, soft: None)
        self.util = SimpleNamespace(scheduling_strategies=affinity)

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "node", gcs_address="127.0.0.1:9")

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}]

    def remote(self, call: Any) -> Any:
        def options(**chosen: Any) -> Any:
            self.options.append(chosen)
            return SimpleNamespace(remote=self._begin if call is ray._batch else self._board)

        return SimpleNamespace(options=options)

    def _board(self) -> Any:
        return SimpleNamespace(take=SimpleNamespace(remote=lambda: "take"), stop=SimpleNamespace(remote=lambda: None))

    def _begin(self, board: Any, jobs: list[Job], folder: str) -> int:
        number = next(self.numbers)
        self.running[number] = jobs
        return number

    def wait(self, tasks: list[int], **options: Any) -> tuple[list[int], list[int]]:
        first = {number: jobs[0].key.split("-")[0] for number, jobs in self.running.items()}
        for number, jobs in self.running.items():
            self.starts.update(job.key for job in jobs[:1])
            if "hog" in first.values():
                self.results[number] = OutOfMemoryError("1 worker(s) were killed. More words")
            elif first[number] == "crash":
                self.results[number] = WorkerCrashedError("it died")
            elif first[number] == "broken":
                self.results[number] = RayTaskError("no such module")
            elif first[number] == "raylet":
                self.results[number] = LocalRayletDiedError("it is gone")
            else:
                self.results[number] = [Event(job.key, "done", job.key) for job in jobs]
        self.running = {}
        return tasks, []

    def get(self, task: Any, **options: Any) -> Any:
        if task == "take":
            raise RayError("the board is starting again")
        if isinstance(self.results[task], Exception):
            raise self.results[task]
        return self.results[task]


def job(context: JobContext) -> None:
    """A job that the pretended cluster does not call."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    @contextmanager
    def joined(address: str | None) -> Iterator[Cluster]:
        yield found

    monkeypatch.setattr(ray, "_joined", joined)
    monkeypatch.setattr(ray.importlib.util, "find_spec", lambda name: found)
    return found


def ends(keys: str, **options: Any) -> dict[str, Event]:
    """The end of each job."""
    events = list(ray.Ray(**options).work([Job(key, job, ()) for key in keys.split()]))
    assert sorted(event.key for event in events) == sorted(keys.split())
    return {event.key: event for event in events}


@pytest.mark.parametrize(("retries", "starts"), [(0, 2), (1, 2), (2, 3)])
def test_a_job_that_exceeds_the_memory_fails_after_its_retries_and_the_others_finish(
    cluster: Cluster, retries: int, starts: int
) -> None:
    """Those that were killed beside it run again, alone. Without retries, nobody knows before who took the memory."""
    found = ends("hog good-1 good-2", retries=retries)
    assert [found[key].kind for key in ("hog", "good-1", "good-2")] == ["failed", "done", "done"]
    said = f"its task was lost, {starts} times: OutOfMemoryError: 1 worker(s) were killed\n  got:     hog\n"
    assert str(found["hog"].value).startswith(said)
    assert cluster.starts == {"hog": starts, "good-1": 2, "good-2": 2}
    assert cluster.options[1]["max_retries"] == 0  # Ray itself would try again without end


def test_a_job_whose_worker_dies_fails_after_its_retries(cluster: Cluster) -> None:
    found = ends("crash good", retries=2)
    assert str(found["crash"].value).startswith("its task was lost, 3 times: WorkerCrashedError: it died\n")
    assert cluster.starts == {"crash": 3, "good": 1}


def test_the_jobs_of_a_lost_batch_are_run_again_one_by_one(cluster: Cluster) -> None:
    found = ends("crash good-1 good-2 good-3", retries=1, trials_per_task=3)
    assert {key for key, event in found.items() if event.kind == "failed"} == {"crash"}
    assert cluster.starts["crash"] == 2


def test_a_task_that_cannot_be_run_fails_at_once(cluster: Cluster) -> None:
    found = ends("broken good-1 good-2", retries=5, trials_per_task=2)
    assert {key for key, event in found.items() if event.kind == "failed"} == {"broken"}
    assert "its task was lost, 1 time: RayTaskError: no such module" in str(found["broken"].value)


def test_a_lost_cluster_is_one_message(cluster: Cluster) -> None:
    with pytest.raises(ApeError, match="the Ray cluster was lost") as caught:
        ends("raylet good")
    assert "run the same command again to continue" in str(caught.value)


def test_a_head_that_accepts_no_connections_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    monkeypatch.setattr(ray.time, "monotonic", lambda: seconds)
    answers = iter([True, False, False, True, *[False] * 20])

    def connect(address: tuple[str, int], timeout: float) -> Any:
        assert address == ("127.0.0.1", 6379)
        if not next(answers):
            raise ConnectionRefusedError("refused")
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(ray.socket, "create_connection", connect)
    pulse = ray._Pulse("127.0.0.1:6379", "head:6379")
    for seconds in range(2, 30, 2):  # the last answer is after 8 seconds  # noqa: B007 - the clock reads it
        pulse.check()
    seconds = 30.0
    with pytest.raises(ApeError, match="the Ray cluster was lost\n  got:     head:6379: refused\n"):
        pulse.check()
