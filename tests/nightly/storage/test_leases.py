"""Leases on connections that fail at the worst moment, and on servers that cannot have them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, BusyError, PlaceError
from ape_cli.storage import _bucket, _requests, files, leases
from ape_cli.storage._stored_lock import SECONDS, find
from ape_cli.storage.leases import Lease, held
from ape_cli.storage.object_store import RemotePath
from tests.nightly.flaky import Flaky, flaky
from tests.nightly.store import Server, at

BUSY = BusyError("busy", got="this", fix="wait")


@pytest.fixture
def proxy(server: Server) -> Iterator[Flaky]:
    with flaky(server.endpoint) as found:
        found.plan = lambda method, path: None
        yield found


@pytest.mark.parametrize("ignored", [{"if-match", "if-none-match"}, {"if-match"}, {"if-none-match"}])
def test_a_store_that_ignores_conditions_is_refused(server: Server, proxy: Flaky, ignored: set[str]) -> None:
    proxy.dropped = ignored
    with pytest.raises(PlaceError, match="has no conditional writes"), held(at(proxy.endpoint, "old/.lock"), BUSY):
        pass
    assert server.objects("ape/old") == {}


def test_a_renewal_whose_answer_was_lost_is_ours(server: Server, proxy: Flaky) -> None:
    """The store has carried it out, but neither its answer nor the object could be read."""
    with held(at(proxy.endpoint, "unsure/.lock"), BUSY) as mine:
        known = mine.version
        proxy.plan = lambda method, path: "lost answer" if method == "PUT" else "503 SlowDown"
        with pytest.raises(PlaceError):
            mine.renew()
        proxy.plan = lambda method, path: None
        assert mine.version == known != _requests.version(mine.lock.bucket, mine.lock.key)
        mine.renew()
        assert mine.is_ours()
    assert server.objects("ape/unsure") == {}


def test_a_renewal_without_an_answer_is_repeated(proxy: Flaky, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request gets stuck. The lease does not wait for it until it has expired."""
    monkeypatch.setattr(_bucket, "_SILENT", timedelta(seconds=0.5))
    monkeypatch.setattr(_bucket, "_LONGEST", timedelta(seconds=6))
    stuck = iter(["stuck"])
    with held(at(proxy.endpoint, "stuck/.lock"), BUSY, seconds=5) as mine:
        proxy.plan = lambda method, path: next(stuck, None) if method == "PUT" else None
        mine.renew()
        assert ("stuck", "PUT") in proxy.failed
        assert mine.is_ours()


def test_interrupted_while_the_lock_is_written(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is stored, although this process does not know its version."""
    real = _requests.replace

    def interrupted(*words: Any) -> Any:
        monkeypatch.setattr(_requests, "replace", real)
        real(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(_requests, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), held(at(server.endpoint, "interrupted/.lock"), BUSY):
        pass
    assert server.objects("ape/interrupted") == {}


def test_the_store_fails_after_the_lock_is_written(server: Server, proxy: Flaky) -> None:
    """The next attempt does not find a lock of its own process."""
    answers = iter([None, "403 AccessDenied"])
    proxy.plan = lambda method, path: next(answers, None) if method == "PUT" else None
    with pytest.raises(PlaceError, match="S3 refuses"), held(at(proxy.endpoint, "denied/.lock"), BUSY):
        pass
    assert server.objects("ape/denied") == {}
    with held(at(proxy.endpoint, "denied/.lock"), BUSY):
        pass


def test_a_lock_that_no_thread_can_renew(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**options: Any) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    system = SimpleNamespace(Thread=refused, Event=threading.Event, Lock=threading.Lock)
    monkeypatch.setattr(leases, "threading", system)
    lock = at(server.endpoint, "threads/.lock")
    with pytest.raises(ApeError, match="cannot start a thread"), held(lock, BUSY):
        pass
    assert server.objects("ape/threads") == {}
    assert lock.bucket.guards == []


def test_killed_while_it_asks_for_the_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = at(server.endpoint, "killed/.lock")
    assert Lease(lock, seconds=1).acquire() is None  # a process that was killed
    while leases.is_held(lock):
        time.sleep(0.1)

    def killed(self: RemotePath) -> Any:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, "stat", killed)
        with pytest.raises(SystemExit):
            Lease(at(server.endpoint, "killed/.lock"), seconds=1).acquire()  # the next one is killed as well
    assert len(server.objects("ape/killed")) == 2
    with held(at(server.endpoint, "killed/.lock"), BUSY):
        pass
    assert server.objects("ape/killed") == {}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("400 ExpiredToken", "S3 refuses"),
        ("403 AccessDenied", "S3 refuses"),
        ("403 RequestTimeTooSkewed", "the clocks of this machine and of S3 differ"),
        ("501 NotImplemented", "has no conditional writes"),
        ("409 OperationAborted", "S3 failed at"),
    ],
)
def test_an_error_names_its_cause(proxy: Flaky, answer: str, message: str) -> None:
    proxy.plan = lambda method, path: answer
    with pytest.raises(PlaceError, match=message) as told:
        at(proxy.endpoint, "x").read_bytes()
    if "501" not in answer:
        status, _, code = answer.partition(" ")
        assert re.fullmatch(rf"status code: {status} .* \({code}\)", str(told.value.got))


def test_many_ask_for_the_time_at_once(server: Server) -> None:
    """Each of them removes the object whose time the others read."""
    lock = at(server.endpoint, "times/.lock")
    found, start = list[float](), time.time()
    asking = [lambda: found.append(Lease(at(server.endpoint, "times/.lock"), 60)._store_time())] * 6
    threads = [threading.Thread(target=one) for one in asking]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(start - 2 < one < time.time() + 2 or one == float("-inf") for one in found)
    assert max(found) > start - 2
    assert not lock.with_name(".lock.now").exists()


def taken_over(lock: RemotePath) -> Lease:
    """Another process takes the lock, as if the lease of its holder had expired."""
    other = Lease(at(dict([lock.bucket.query.split("=", 1)])["endpoint_override"], lock.key), SECONDS)
    found = find(other.lock)
    assert found is not None
    other._write(found.version)
    other.lock.bucket.guards.append(other)
    return other


def test_a_late_upload_is_rejected(server: Server, tmp_path: Path) -> None:
    """A process sleeps during an upload, wakes up when another one has taken over, and its request goes out then."""
    lock = at(server.endpoint, "late/.lock")
    target = lock.with_name("state.bin")
    late = tmp_path / "late.bin"
    late.write_bytes(b"late")
    with held(lock, BUSY) as mine:
        files.write_text(target, "ours")
        other = taken_over(lock)
        files.write_text(other.lock.with_name("state.bin"), "theirs")
        assert mine.is_ours()  # it cannot know yet
        with pytest.raises(ApeError, match="another process may have taken over"):
            target.upload(late)
        assert target.read_bytes() == b"theirs"
        assert not mine.is_ours()
    assert other.is_ours()
    other.renew()
    assert other.is_ours()


def test_a_late_upload_that_comes_first_is_replaced(server: Server) -> None:
    """The store accepts it, because the new holder has not written yet; then the new holder writes all the same."""
    lock = at(server.endpoint, "first/.lock")
    with held(lock, BUSY) as mine:
        files.write_text(lock.with_name("state.bin"), "ours")
        server.put("ape/first/state.bin", b"late")
        files.write_text(lock.with_name("state.bin"), "ours again")
        server.remove("ape/first/state.bin")
        files.write_text(lock.with_name("state.bin"), "and again")
        assert mine.is_ours()
        lock.with_name("state.bin").unlink()
        files.write_text(lock.with_name("state.bin"), "after it was removed")
    assert server.objects("ape/first") == {"state.bin": b"after it was removed"}


def test_a_lease_that_runs_out_before_the_first_upload(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a process asks for the version of an object, another one takes the lock and writes this object."""
    lock = at(server.endpoint, "asked/.lock")
    real = _requests.version

    def slow(*words: Any) -> Any:
        monkeypatch.setattr(_requests, "version", real)
        mine.until = 0.0
        files.write_text(taken_over(lock).lock.with_name("run.json"), "theirs")
        return real(*words)

    with held(lock, BUSY) as mine:
        monkeypatch.setattr(_requests, "version", slow)
        with pytest.raises(ApeError, match="another process may have taken over"):
            files.write_text(lock.with_name("run.json"), "ours")
    assert server.get("ape/asked/run.json") == b"theirs"
