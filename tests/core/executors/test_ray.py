"""Ray: how often a job is run again, in a cluster that only pretends to run tasks. Ray need not be installed.

`tests/nightly/core/executors/test_ray.py` has real clusters.
"""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.core.errors import ApeError
from ape_cli.core.executors import Event, Job, ray


class RayError(Exception):
    """The base class of Ray's errors."""


class Cluster:
    """What `ray` is for the executor. The worker of a job `crash` dies, and `lost` ends the whole cluster."""

    exceptions = SimpleNamespace(RayError=RayError)
    util = SimpleNamespace(scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda *_, **__: None))

    def __init__(self) -> None:
        self.numbers, self.starts, self.tasks = itertools.count(), Counter[str](), dict[int, list[Job]]()

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "node")

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}]

    def remote(self, call: Any) -> Any:
        board = SimpleNamespace(take=SimpleNamespace(remote=lambda: "take"))
        return SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=self._begin if call is ray._batch else lambda: board)
        )

    def _begin(self, board: Any, jobs: list[Job], folder: str) -> int:
        self.starts.update(job.key for job in jobs)
        self.tasks[number := next(self.numbers)] = jobs
        return number

    def wait(self, tasks: list[int], **options: Any) -> tuple[list[int], list[int]]:
        return tasks, []

    def get(self, task: Any, **options: Any) -> Any:
        if task == "take":
            if any(job.key == "lost" for jobs in self.tasks.values() for job in jobs):
                raise RayError("it is gone")
            return []
        if any(job.key == "crash" for job in self.tasks[task]):
            raise RayError("it died. More words")
        return [Event(job.key, "done", job.key) for job in self.tasks[task]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(ray, "_joined", lambda address: nullcontext(cluster))
    monkeypatch.setattr(ray.importlib.util, "find_spec", lambda name: cluster)
    return cluster


def ends(keys: str, **options: Any) -> dict[str, Event]:
    """The end of each job."""
    events = list(ray.Ray(**options).work([Job(key, len, ()) for key in keys.split()]))
    assert sorted(event.key for event in events) == sorted(keys.split())
    return {event.key: event for event in events}


@pytest.mark.parametrize("batch", [1, 3])
def test_a_job_whose_worker_dies_fails_after_its_retries_and_the_others_finish(cluster: Cluster, batch: int) -> None:
    """Those in the same task run again, alone."""
    found = ends("good-1 crash good-2", retries=2, trials_per_task=batch)
    assert {key for key, event in found.items() if event.event_type == "failed"} == {"crash"}
    assert "its task was lost, 3 times: RayError: it died\n" in str(found["crash"].value)
    assert cluster.starts == {"crash": 3} | dict.fromkeys(("good-1", "good-2"), 1 + (batch > 1))


def test_a_lost_cluster_is_one_message(cluster: Cluster) -> None:
    with pytest.raises(ApeError, match="the Ray cluster was lost") as caught:
        ends("lost good")
    assert "run the same command again to continue" in str(caught.value)
