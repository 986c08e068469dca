"""Processes that finish the same run in an object store: all orders in which each of two is interrupted once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ape_cli.runs.record import RunRecord
from ape_cli.runs.remote_run import RemoteRun
from ape_cli.storage.object_store import ConflictError
from tests.runs.test_finishing import (
    Process,
    check_killed,
    check_the_first_is_kept,
    finishing,
    in_memory,
    requests_of,
    whose,
)


def schedules(record: RunRecord) -> Iterator[tuple[int, int]]:
    """How many requests the first process makes, and then the second one, which may need more, as it is not alone."""
    most = requests_of(record)
    yield from itertools.product(range(most + 1), range(most + 4))


def test_whatever_the_order_of_requests_one_run_is_kept(record: RunRecord) -> None:
    assert {check_the_first_is_kept(record, *schedule) for schedule in schedules(record)} == {1, 2}


def test_one_is_killed_at_any_request_while_the_other_is_at_any_of_its_own(record: RunRecord) -> None:
    for schedule in schedules(record):
        check_killed(record, *schedule)


def test_a_retraining_and_a_process_that_finishes_the_earlier_training(record: RunRecord) -> None:
    """While one process finishes, another one clears the folder for `overwrite`, and a third one ends that training."""
    for before, between in schedules(record):
        store = in_memory()
        one = finishing(store, record, 1)
        one.go(before)
        clearing = Process(RemoteRun(store / "runs" / record.run).clear)
        clearing.go(between)
        one.go()
        clearing.go()
        again = finishing(store, record, 3)
        again.go()
        assert again.result == (whose(store, record) == 3), (before, between)
        assert isinstance(one.result, bool | ConflictError)
