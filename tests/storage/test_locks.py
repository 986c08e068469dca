"""Locks: one holder at a time, which loses the lock if it does not renew it, and is told so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from ape_cli.core.errors import ApeError, BusyError
from ape_cli.storage import files, leases, locks
from ape_cli.storage.leases import Lease, held
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path
from tests.store import Server, serving

BUSY = BusyError("busy", got="this", fix="wait")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        found.bucket("lease")
        yield found


@pytest.fixture
def lock(server: Server, request: pytest.FixtureRequest) -> RemotePath:
    found = storage_path(f"s3://lease/{request.node.name}/.lock?endpoint_override={server.endpoint}")
    assert isinstance(found, RemotePath)
    return found


def another(lock: RemotePath) -> RemotePath:
    """The same address as another process has it."""
    found = storage_path(str(lock))
    assert isinstance(found, RemotePath)
    return found


def abandoned(lock: RemotePath, seconds: int) -> Lease:
    """The files that a killed process leaves."""
    found = Lease(another(lock), seconds)
    assert found.acquire() is None
    return found


@pytest.mark.slow
def test_one_holder_at_a_time(lock: RemotePath, server: Server) -> None:
    assert not locks.is_locked(lock)
    with locks.locked(lock, BUSY):
        assert locks.is_locked(lock)
        told = (
            r"busy\n  got:     this, by process \d+ on .+\n  fix:     wait; one that was killed is forgotten after 60"
        )
        with pytest.raises(BusyError, match=told), locks.locked(another(lock), BUSY):
            pass
        assert locks.is_locked(lock)  # the refused process has removed nothing
    assert not locks.is_locked(lock)
    with locks.locked(another(lock), BUSY):
        pass
    assert server.objects(f"lease/{lock.parent.name}") == {}
    assert not any(lock.parent.iterdir())


@pytest.mark.slow
def test_of_many_that_come_at_once_one_gets_it(lock: RemotePath) -> None:
    """There are never two holders, although each process writes before it looks."""
    ready, holders, refused, together = threading.Barrier(5), list[str](), list[str](), list[int]()

    def come(name: str) -> None:
        here = another(lock)
        ready.wait()
        try:
            with held(here, BUSY):
                holders.append(name)
                together.append(len(holders))
                until = time.monotonic() + 20
                # until all others have looked
                while len(refused) < 4 and max(together) == 1 and time.monotonic() < until:
                    time.sleep(0.05)
                holders.remove(name)
        except BusyError:
            refused.append(name)

    threads = [threading.Thread(target=come, args=(str(i),)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together in ([1], [])  # all of them may have given up
    assert len(refused) == 5 - len(together)


def test_one_that_is_not_renewed_is_taken_over(lock: RemotePath, server: Server) -> None:
    dead = abandoned(lock, seconds=1)
    while leases.is_held(lock):
        time.sleep(0.1)
    with held(lock, BUSY) as mine:
        before = server.objects(f"lease/{lock.parent.name}")
        assert list(before) == [".lock"]
        dead.renew()  # it wakes up and is told
        assert not dead.is_ours()
        dead.until = float("inf")  # its clock stood still, so it does not know
        dead.renew()
        assert not dead.is_ours()
        dead.until = float("inf")
        dead.release()
        assert server.objects(f"lease/{lock.parent.name}") == before
        assert mine.is_ours()


@pytest.mark.slow
def test_a_holder_renews(lock: RemotePath) -> None:
    with held(lock, BUSY, seconds=3):
        time.sleep(4.5)
        assert leases.is_held(lock)
        files.write_text(lock.with_name("run.json"), "{}")


def test_who_has_lost_it_writes_no_more(lock: RemotePath, server: Server) -> None:
    target = lock.parent / "state" / "state.bin"
    with held(lock, BUSY) as mine:
        files.write_text(target, "ours")
        mine.until = 0.0  # without a connection for a minute
        with pytest.raises(ApeError, match="another process may have taken over"):
            files.write_text(target, "late")
        with pytest.raises(ApeError, match="another process may have taken over"):
            target.unlink()
        files.write_text(lock.parent.with_name("elsewhere") / "x", "not under this lock")
    assert server.objects(f"lease/{lock.parent.name}")["state/state.bin"] == b"ours"


def test_a_claim_that_another_removed_is_lost(lock: RemotePath) -> None:
    with held(lock, BUSY) as mine:
        lock.unlink()
        assert mine.is_ours()  # it cannot know yet
        mine.renew()
        assert not mine.is_ours()
        assert not leases.is_held(lock)
