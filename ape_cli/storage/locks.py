"""Locks in an object store: a lock is a lease, which its holder renews and which expires otherwise.

A claim on `.lock` is an object `.lock.60s.ID` beside it. It is valid for 60 seconds after its last write, by the
store's clock. To take the lock, a process writes its own claim, then lists all claims, and withdraws its own if another
one is alive. If two processes do this at the same time, the one that wrote last sees the claim of the other, whatever
the order of their requests. Both may withdraw; then they try again a moment later. A thread renews the claim after
every quarter of its duration.

Guarantees, on a store whose listings show all earlier writes (S3, MinIO and Google Cloud Storage do):

- Two processes never hold a lock at once, as long as each claim is renewed.
- A process that was disconnected or asleep for longer than its claim lasts gets an error before its next write
  (`Lease.guard`), and no longer renews the claim.

Limits:

- An upload that is under way when the claim expires may still arrive after another process has taken the lock. The
  store has no way to reject it.
- `is_held` compares with the clock of this machine. Use it only for display.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ape_cli.core.errors import ApeError
from ape_cli.storage.object_store import RemotePath

SECONDS = 60  # duration of a claim; after it, the lock of a killed process is free
_SAFE = 5 / 6  # fraction of the duration that the holder relies on, because stores round times to whole seconds
_TRIES = 3


class Lease:
    """One claim of this process on a lock. Make one with `held`.

    `lock` is the path of the lock, and `seconds` is the duration of the claim in seconds.
    """

    def __init__(self, lock: RemotePath, seconds: int) -> None:
        """Prepare a claim with a unique name; nothing is written yet."""
        self.lock, self.seconds = lock, seconds
        self.claim = lock.with_name(f"{lock.name}.{seconds}s.{uuid.uuid4().hex}")
        self.until = 0.0  # end of the time in which the claim is valid for us, by `_clock`
        self.ended = threading.Event()

    def acquire(self) -> str | None:
        """Try to take the lock. Returns None on success, else the name of a claim that is alive."""
        alive: list[RemotePath] = []
        for attempt in range(_TRIES):
            time.sleep(attempt * int(self.claim.name[-4:], 16) / 0xFFFF)  # a random wait against new collisions
            start = _clock()
            self._write()
            claims = {c.name: c for c in _claims(self.lock)}
            mine = claims.pop(self.claim.name, None)
            now = mine.stat().st_mtime_ns if mine else 0  # by the store's clock
            alive = [c for c in claims.values() if _expires(c) > now]
            if mine and not alive:
                self.until = start + _SAFE * self.seconds
                for dead in claims.values():
                    dead.unlink(missing_ok=True)
                return None
            self.claim.unlink(missing_ok=True)
        return alive[0].name if alive else self.claim.name

    def renew(self) -> None:
        """Write the claim again, if it is still valid and still exists; otherwise give the lock up."""
        start = _clock()
        if self.is_ours() and self.claim.exists():
            self._write()
            if self.is_ours():  # the claim did not expire during the write, so nobody has removed it
                self.until = start + _SAFE * self.seconds
                return
        self.until = 0.0

    def is_ours(self) -> bool:
        """Whether this process may rely on holding the lock now."""
        return _clock() < self.until

    def guard(self, path: RemotePath) -> None:
        """Check that this process may write `path`.

        Raises `ApeError` if `path` lies in the folder of the lock and the lock is no longer ours.
        """
        if path.path.startswith(f"{self.lock.parent.path}/") and not self.is_ours():
            raise ApeError(
                "this process could not renew its lock in time, so another process may have taken over",
                got=str(self.lock.parent),
                allowed=f"{self.seconds} seconds without the object store",
                fix="look for another process; then run the same command again to continue",
            )

    def keep(self) -> None:
        """Renew the claim regularly until `ended` is set. This runs in a thread."""
        while not self.ended.wait(self.seconds / 4):
            with suppress(ApeError, OSError):  # the next attempt may get through
                self.renew()

    def release(self) -> None:
        """Remove the claim. Errors are ignored, because the claim expires anyway."""
        with suppress(ApeError, OSError):
            self.claim.unlink(missing_ok=True)

    def _write(self) -> None:
        """Write the claim; its content names the host and the process."""
        self.claim.write_bytes(json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())


@contextmanager
def held(lock: RemotePath, busy: ApeError, seconds: int = SECONDS) -> Iterator[Lease]:
    """Hold `lock` during the block, and yield the lease.

    `seconds` is the duration of a claim. During the block, `Lease.guard` checks each upload to the same bucket.

    Raises `busy`, extended by the holder's name, if another process holds the lock.
    """
    lease = Lease(lock, seconds)
    try:
        holder = lease.acquire()
    except KeyboardInterrupt:
        lease.release()
        raise
    if holder:
        raise _busy(busy, lock.with_name(holder), seconds)
    keeper = threading.Thread(target=lease.keep, daemon=True)
    lock.bucket.guards.append(lease.guard)
    try:
        keeper.start()
        yield lease
    finally:
        lease.ended.set()
        lock.bucket.guards.remove(lease.guard)
        keeper.join()
        lease.release()


def is_held(lock: RemotePath) -> bool:
    """Whether some process seems to hold `lock`, by the clock of this machine."""
    return any(_expires(claim) > time.time_ns() for claim in _claims(lock))


def _claims(lock: RemotePath) -> list[RemotePath]:
    """All claims on the lock, valid or expired."""
    return list(lock.parent.glob(f"{lock.name}.*s.*"))


def _expires(claim: RemotePath) -> int:
    """The time at which a claim expires, in nanoseconds since 1970."""
    return claim.stat().st_mtime_ns + int(claim.name.split(".")[-2].removesuffix("s")) * 10**9


def _busy(busy: ApeError, claim: RemotePath, seconds: int) -> ApeError:
    """A copy of the error `busy` that also names the holder of the lock, if its claim can be read."""
    try:
        about = json.loads(claim.read_bytes())
        holder = f", by process {about['process']} on {about['host']}"
    except (FileNotFoundError, KeyError, ValueError):  # the claim was removed meanwhile, or is incomplete
        holder = ""
    fix = f"{busy.fix}; one that was killed is forgotten after {seconds} seconds"
    return type(busy)(busy.what, got=f"{busy.got}{holder}", allowed=busy.allowed, fix=fix)


def _clock() -> float:
    """A clock in seconds that also advances while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
