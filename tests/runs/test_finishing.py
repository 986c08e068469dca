"""Processes that finish the same run in an object store, with their requests in any order, and killed at any of them.

The store is that of obstore in memory. Tests in `tests/nightly/` have more orders, and a server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ape_cli.core.errors import ApeError
from ape_cli.data.loader import Dataset
from ape_cli.runs.record import RunRecord, TrainingResult
from ape_cli.runs.remote_run import RemoteRun
from ape_cli.runs.run import Run
from ape_cli.storage.object_store import Bucket, RemotePath
from ape_cli.training.execution import ExistingRun
from tests.runs import test_registry

obstore = pytest.importorskip("obstore", reason="needs the extra `cloud`")
REQUESTS = ("get", "put", "head", "copy", "delete", "list", "list_with_delimiter")


class KilledError(BaseException):
    """The end of a process that is killed."""


class Process:
    """A process that stops before each of its requests until it is told to go on. It is a thread."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.result, self.ended, self.killed = work, None, False, False
        self.waits, self.goes = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.process = self  # type: ignore[attr-defined]
        self.thread.start()
        self.waits.acquire()

    def _run(self) -> None:
        try:
            self.result = self.work()
        except KilledError:
            pass
        except ApeError as error:
            self.result = error
        self.ended = True
        self.waits.release()

    def before_a_request(self) -> None:
        self.waits.release()
        self.goes.acquire()
        if self.killed:
            raise KilledError

    def go(self, requests: int = 1000) -> None:
        """Lets the process make some requests. It ends, or it waits before the next one."""
        for _ in range(requests):
            if self.ended:
                return
            self.goes.release()
            self.waits.acquire()

    def kill(self) -> None:
        self.killed = True
        self.go(1)


@pytest.fixture(autouse=True)
def requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting(request: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            process = getattr(threading.current_thread(), "process", None)
            if process is not None:
                process.before_a_request()
            return request(*given, **options)

        return call

    for name in REQUESTS:
        monkeypatch.setattr(obstore, name, waiting(getattr(obstore, name)))


@pytest.fixture(scope="module")
def record(words: Dataset, tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    """The run.json of a run that is being trained."""
    known = test_registry.run(words, tmp_path_factory.mktemp("one")).run.read()
    return known.model_copy(update={"status": "running", "finished": None, "result": None, "files": {}})


def in_memory() -> RemotePath:
    """A new object store."""
    bucket = Bucket("s3", "memory", "")
    bucket.__dict__["store"] = obstore.store.MemoryStore()
    return RemotePath(bucket, "memory/results")


def weights_of(number: int) -> dict[str, torch.Tensor]:
    return {"weight": torch.full((3,), float(number))}


def finishing(store: RemotePath, record: RunRecord, number: int) -> Process:
    """A process that has trained a run, with weights and a history that no other process has, and finishes it."""
    run = RemoteRun(store / "runs" / record.run)
    run.attempt  # noqa: B018 - the name of its folder
    run.write_record(record)
    result = TrainingResult(
        steps=4, best_step=4, best_accuracy=0.5, seconds=float(number), tokens_per_second=1.0, parameters=3
    )

    def finish() -> bool:
        kept = run.finish(result, weights_of(number), [{"step": 4, "seconds": float(number)}])
        run.remove_state()
        return kept

    return Process(finish)


def whose(store: RemotePath, record: RunRecord) -> int:
    """The process whose run is there, as its record, its weights and its history say, which are not damaged."""
    run = RemoteRun(store / "runs" / record.run)
    assert run.status == "finished"
    assert run.problems() == []
    seconds = run.read().outcome.seconds
    assert run.load_model()["weight"].tolist() == [seconds] * 3
    assert run.history()["seconds"].to_list() == [seconds]
    return int(seconds)


def requests_of(record: RunRecord) -> int:
    """The number of requests of a process that is alone."""
    process, number = finishing(in_memory(), record, 1), 0
    while not process.ended:
        process.go(1)
        number += 1
    assert process.result is True
    return number


def check_the_first_is_kept(record: RunRecord, before: int, between: int) -> int:
    """The first makes some requests, then the second one some, then the first one the others. Returns who is kept."""
    store = in_memory()
    one, other = finishing(store, record, 1), finishing(store, record, 2)
    one.go(before)
    other.go(between)
    one.go()
    other.go()
    winner = whose(store, record)
    assert (one.result, other.result) == (winner == 1, winner == 2), (before, between)
    assert not (store / "runs" / record.run / "state").exists()
    return winner


def check_killed(record: RunRecord, before: int, between: int) -> None:
    """The first is killed after some requests. The second one has made some of its own before, and then ends."""
    store = in_memory()
    one, other = finishing(store, record, 1), finishing(store, record, 2)
    other.go(between)
    one.go(before)
    one.kill()
    other.go()
    assert other.result == (whose(store, record) == 2), (before, between)


def test_while_one_finishes_the_other_does_too(record: RunRecord) -> None:
    most = requests_of(record)
    assert {check_the_first_is_kept(record, before, 1000) for before in range(most + 1)} == {1, 2}


def test_what_a_killed_process_leaves_is_completed_by_another(record: RunRecord) -> None:
    for before in range(requests_of(record) + 1):
        check_killed(record, before, 0)


def test_the_same_command_completes_what_was_announced(words: Dataset, record: RunRecord) -> None:
    """A process is killed after each of its requests. `ape train` finishes its run, or trains it if none has ended."""
    for before in range(requests_of(record) + 1):
        store = in_memory()
        process = finishing(store, record, 1)
        process.go(before)
        announced = (store / "runs" / record.run / "run.json").exists()
        process.kill()
        done = test_registry.run(words, store, existing=ExistingRun.RESUME_OR_START, test=False)
        assert done.trained is not announced
        assert done.run.status == "finished"
        assert done.run.problems() == []
        assert not done.run.has_leftovers()


def test_a_second_training_leaves_the_folder_of_the_first_alone(
    words: Dataset, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts before the first has stored a state, and ends after the first."""
    store, finish = in_memory(), Run.finish
    one = finishing(store, record, 1)

    def late(self: Run, *given: Any) -> bool:
        one.go()
        return finish(self, *given)

    monkeypatch.setattr(Run, "finish", late)
    done = test_registry.run(words, store, test=False)
    assert one.result is True
    assert not done.trained
    assert done.run.status == "finished"
    assert done.run.problems() == []


def test_files_of_an_announced_end_that_are_missing(record: RunRecord) -> None:
    """The run is not finished, and the next process that ends is kept."""
    store = in_memory()
    process = finishing(store, record, 1)
    while not (store / "runs" / record.run / "run.json").exists():
        process.go(1)
    process.kill()
    RemoteRun(store / "runs" / record.run).remove_state()
    assert not RemoteRun(store / "runs" / record.run).complete()
    again = finishing(store, record, 2)
    again.go()
    assert again.result is True
    assert whose(store, record) == 2
