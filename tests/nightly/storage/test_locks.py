"""Locks: one holder at a time, which loses the lock if it does not renew it, and is told so."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ape_cli.core.errors import ApeError, BusyError
from ape_cli.storage import _requests, files, leases, locks
from ape_cli.storage._stored_lock import SECONDS, find
from ape_cli.storage.leases import Lease, held
from ape_cli.storage.object_store import RemotePath
from ape_cli.storage.paths import storage_path
from tests.nightly import google
from tests.nightly.store import Server, at

BUSY = BusyError("busy", got="this", fix="wait")


@pytest.fixture
def lock(server: Server, request: pytest.FixtureRequest) -> RemotePath:
    return at(server.endpoint, f"{request.node.name}/.lock")


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
    assert server.objects(f"ape/{lock.parent.name}") == {}
    assert not any(lock.parent.iterdir())


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
        before = server.objects(f"ape/{lock.parent.name}")
        assert list(before) == [".lock"]
        dead.renew()  # it wakes up and is told
        assert not dead.is_ours()
        dead.until = float("inf")  # its clock stood still, so it does not know
        dead.renew()
        assert not dead.is_ours()
        dead.until = float("inf")
        dead.release()
        assert server.objects(f"ape/{lock.parent.name}") == before
        assert mine.is_ours()


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
    assert server.objects(f"ape/{lock.parent.name}")["state/state.bin"] == b"ours"


def test_a_claim_that_another_removed_is_lost(lock: RemotePath) -> None:
    with held(lock, BUSY) as mine:
        lock.unlink()
        assert mine.is_ours()  # it cannot know yet
        mine.renew()
        assert not mine.is_ours()
        assert not leases.is_held(lock)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 4096,
        b'{"seconds": 1e999, "lease": "x", "process": 1, "host": "h"}',
        b'{"seconds": NaN, "lease": "x", "process": 1, "host": "h"}',
        b'{"seconds": -1e308, "lease": "x", "process": 1, "host": "h"}',
        b'{"seconds": -1' + b"0" * 400 + b', "lease": "x", "process": 1, "host": "h"}',
        b'{"seconds": 1' + b"0" * 4000 + b"}",
        b'{"seconds": [], "lease": "x", "process": 1, "host": "h"}',
        b'{"seconds": 0}',
        b'"seconds"',
    ],
    ids=range(10),
)
def test_a_lock_that_nobody_has_written_expires_like_others(lock: RemotePath, server: Server, content: bytes) -> None:
    server.put(f"ape/{lock.key}", content)
    found = find(lock)
    assert found is not None
    assert found.expires - lock.stat().st_mtime_ns / 1e9 == pytest.approx(SECONDS + 1)
    assert leases.is_held(lock)
    with pytest.raises(BusyError), held(lock, BUSY):
        pass
    assert server.get(f"ape/{lock.key}") == content


def test_a_late_removal_is_rejected(lock: RemotePath, server: Server) -> None:
    """A process sleeps before it removes its lock, and wakes up when another one has taken over."""
    first = abandoned(lock, seconds=60)
    late = first.version
    first.renew()
    with pytest.raises(_requests.ConflictError):
        _requests.remove(lock.bucket, lock.key, late)
    assert leases.is_held(lock)
    assert _requests.remove(lock.bucket, lock.key, first.version)
    assert server.objects(f"ape/{lock.parent.name}") == {}
    with pytest.raises(_requests.ConflictError):
        _requests.remove(lock.bucket, lock.key, first.version)


def test_a_removal_names_the_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in for Google's store does not know the condition, so only the request is checked."""
    named, real = list[str | None](), google._Handler.do_DELETE

    def recorded(self: google._Handler) -> None:
        named.append(self.headers.get("x-goog-if-generation-match"))
        real(self)

    monkeypatch.setattr(google._Handler, "do_DELETE", recorded)
    with google.serving() as store:
        url = f"gs://{google.BUCKET}/named/.lock?anonymous=true&endpoint_override={store.endpoint}"
        lock = storage_path(url)
        assert isinstance(lock, RemotePath)
        with held(lock, BUSY) as mine:
            pass
        assert named == [mine.version["version"]]
        assert store.objects("named") == {}


def test_a_file_that_is_too_large_for_one_upload(lock: RemotePath, server: Server, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((5 << 30) + 1)  # takes no space on the disk
    with held(lock, BUSY):
        with pytest.raises(ApeError, match=r"too large for one upload[\s\S]*5,368,709,121 bytes[\s\S]*5 GiB"):
            lock.with_name("model").upload(large)
        assert list(server.objects(f"ape/{lock.parent.name}")) == [".lock"]


def test_a_file_is_read_once(lock: RemotePath, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is stored in between, so the upload needs two attempts."""
    target, new = lock.with_name("model"), tmp_path / "new"
    new.write_bytes(b"new")
    read, real = list[Path](), Path.read_bytes

    def counted(self: Path) -> Any:
        read.append(self)
        return real(self)

    with held(lock, BUSY):
        files.write_text(target, "ours")
        server.put(f"ape/{target.key}", b"late")
        monkeypatch.setattr(Path, "read_bytes", counted)
        target.upload(new)
    assert read == [new]
    assert server.get(f"ape/{target.key}") == b"new"


@pytest.mark.parametrize("guarded", [True, False])
def test_a_process_that_is_killed_after_an_upload_leaves_no_temporary_file(
    lock: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """The same command may find the object finished, and write nothing that would remove the file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    left: list[list[str]] = []

    def seen(name: str) -> None:
        real = getattr(_requests, name)

        def request(*given: Any) -> Any:
            left.append([path.name for path in tmp_path.glob("ape-*/*")])
            return real(*given)

        monkeypatch.setattr(_requests, name, request)

    with held(lock, BUSY) if guarded else nullcontext():
        seen("replace" if guarded else "upload")
        files.write_text(lock.with_name("score.json"), "{}")
    assert left[0] == []
    assert lock.with_name("score.json").read_bytes() == b"{}"
