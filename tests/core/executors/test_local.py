"""Jobs in local processes: each job ends exactly once, even if the process that runs it dies."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core import executors
from ape_cli.core.errors import DataError, UsageError
from ape_cli.core.executors import Event, Job, JobContext
from ape_cli.core.executors.local import Local
from tests.interpreters import python, until

# Jobs. They are functions of this module, so that workers can import them ---------------------------


def square(context: JobContext, number: int) -> int:
    context.report({"number": number})
    return number * number


def refuse(context: JobContext) -> None:
    raise DataError("no such thing", got="this", fix="ask for another")


def break_down(context: JobContext) -> None:
    raise ZeroDivisionError("by accident")


def die(context: JobContext, folder: str, times: int) -> str:
    """Kills its own process the first `times` times that it runs."""
    mark = Path(folder) / str(len(list(Path(folder).iterdir())))
    mark.touch()
    if int(mark.name) < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return mark.name


def store_when_stopped(context: JobContext, folder: str) -> None:
    (Path(folder) / "part").write_text(str(os.getpid()))
    (Path(folder) / "part").rename(Path(folder) / "running")
    while not context.stopping():
        time.sleep(0.02)
    time.sleep(0.5)
    (Path(folder) / "stored").touch()
    raise KeyboardInterrupt


def shout(context: JobContext) -> None:
    print("from Python", flush=True)
    os.system("echo from the system")


def share(context: JobContext) -> tuple[int, str | None]:
    time.sleep(0.5)  # long enough that each of two workers gets one job
    return context.number, os.environ.get("OMP_NUM_THREADS")


# -----------------------------------------------------------------------------------------------------


def work(made: executors.Executor, *jobs: Job) -> list[Event]:
    with closing(made.work(jobs)) as events:
        return list(events)


def ends(events: list[Event]) -> dict[str, Event]:
    counted = Counter(e.key for e in events if e.event_type in ("done", "failed"))
    assert set(counted.values()) <= {1}
    return {e.key: e for e in events if e.event_type in ("done", "failed")}


def test_every_job_is_done_once() -> None:
    events = work(Local(2), *(Job(str(n), square, (n,)) for n in range(7)))
    assert {key: e.value for key, e in ends(events).items()} == {str(n): n * n for n in range(7)}
    assert Counter(e.event_type for e in events) == {"started": 7, "progress": 7, "done": 7}
    assert work(Local(2)) == []


def test_one_that_fails_does_not_stop_the_others() -> None:
    found = ends(work(Local(1), Job("a", refuse, ()), Job("b", break_down, ()), Job("c", square, (3,))))
    assert found["c"].value == 9
    assert isinstance(found["a"].value, DataError)
    assert str(found["a"].value) == "no such thing\n  got:     this\n  fix:     ask for another"
    assert isinstance(found["b"].value, RuntimeError)
    assert "ZeroDivisionError: by accident" in str(found["b"].value)
    assert "break_down" in str(found["b"].value)


@pytest.mark.parametrize(("deaths", "retries"), [(2, 2), (9, 1)])
def test_a_job_whose_process_is_killed_begins_again_but_not_for_ever(tmp_path: Path, deaths: int, retries: int) -> None:
    events = work(Local(1, retries=retries), Job("x", die, (str(tmp_path), deaths)), Job("y", square, (2,)))
    assert ends(events)["y"].value == 4
    assert Counter(e.event_type for e in events if e.key == "x")["started"] == retries + 1
    if deaths == retries:
        assert ends(events)["x"].value == "2"
    else:
        said = "its process ended with signal SIGKILL (out of memory?), 2 times\n  got:     x\n"
        assert str(ends(events)["x"].value).startswith(said)


def test_workers_have_numbers_and_share_the_cores() -> None:
    found = ends(work(Local(2, threads=3), Job("a", share, ()), Job("b", share, ())))
    assert sorted(e.value for e in found.values()) == [(0, "3"), (1, "3")]


def test_a_second_signal_in_a_moment_is_the_same_one(tmp_path: Path) -> None:
    """A process group and then the parent, by closing the iterator, may both ask a worker to stop.

    What the worker stores meanwhile is complete.
    """
    events = Local(1).work([Job("x", store_when_stopped, (str(tmp_path),)), Job("y", square, (1,))])
    assert next(events).event_type == "started"
    until((tmp_path / "running").exists)
    os.kill(int((tmp_path / "running").read_text()), signal.SIGTERM)
    events.close()
    assert (tmp_path / "stored").exists()


def test_what_a_job_prints_is_not_among_the_results(tmp_path: Path) -> None:
    text = (
        "from ape_cli.core.executors import Job\nfrom ape_cli.core.executors.local import Local\n"
        "from tests.core.executors.test_local import shout\n"
        "if __name__ == '__main__':\n    list(Local(1).work([Job('a', shout, ())]))\n    print('result')\n"
    )
    (tmp_path / "script.py").write_text(text)
    done = python(str(tmp_path / "script.py"))
    assert done.stdout == "result\n"
    assert "from the system" in done.stderr


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("local", {"workers": 0}, "bad `workers`"),
        ("local", {"gpus_per_trial": 0.5}, "unknown option of engine local"),
        ("ray", {"trials_per_task": 0}, "bad `trials_per_task`"),
        ("slurm", {}, "unknown engine"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        executors.make(name, **options)
    assert isinstance(executors.make("local", workers=3, address=None), Local)
