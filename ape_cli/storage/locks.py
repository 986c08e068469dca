"""A lock in an object store, where there is none: a claim that its holder renews, and loses when it does not.

A claim on `.lock` is an object `.lock.60s.ID` beside it: for 60 seconds from its last writing, by the store's clock.
Whoever wants the lock writes a claim of its own, then lists all of them, and withdraws if another one is alive. Of
two that come at once the later to write sees the other, whatever the order of their requests; both may withdraw,
and come again a moment later. A thread renews the claim every quarter of its time.

What this gives, on a store whose listings show what was written before (S3, MinIO and Google's do):
two processes never hold a lock at once, as long as each claim is renewed. One that was cut off, or asleep, for longer
than its claim lasts is told so at its next write, which it does not make (`guard`), and no longer renews.
What it does not give: an upload under way when its claim ends may still arrive, after another has taken over; the
store has no way to refuse it. And `is_held` compares with the clock of this machine: it is for what is shown.
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

SECONDS = 60  # a claim lasts; the time after which a process that was killed is forgotten
_SAFE = 5 / 6  # of that time, its holder relies on it: stores tell times in whole seconds
_TRIES = 3


class Lease:
    """One claim of this process. Make one with `held`."""

    def __init__(self, lock: RemotePath, seconds: int) -> None:
        self.lock, self.seconds = lock, seconds
        self.claim = lock.with_name(f"{lock.name}.{seconds}s.{uuid.uuid4().hex}")
        self.until = 0.0  # by `_clock`; the claim is ours so long
        self.ended = threading.Event()

    def acquire(self) -> str | None:
        """None if it is ours now, else the name of a claim that is alive."""
        alive: list[RemotePath] = []
        for attempt in range(_TRIES):
            time.sleep(attempt * int(self.claim.name[-4:], 16) / 0xFFFF)  # not all at the same moment again
            start = _clock()
            self._write()
            claims = {c.name: c for c in _claims(self.lock)}
            mine = claims.pop(self.claim.name, None)
            now = mine.stat().st_mtime_ns if mine else 0  # the store's
            alive = [c for c in claims.values() if _expires(c) > now]
            if mine and not alive:
                self.until = start + _SAFE * self.seconds
                for dead in claims.values():
                    dead.unlink(missing_ok=True)
                return None
            self.claim.unlink(missing_ok=True)
        return alive[0].name if alive else self.claim.name

    def renew(self) -> None:
        start = _clock()
        if self.is_ours() and self.claim.exists():
            self._write()
            if self.is_ours():  # still: nobody has taken it for dead meanwhile
                self.until = start + _SAFE * self.seconds
                return
        self.until = 0.0

    def is_ours(self) -> bool:
        return _clock() < self.until

    def guard(self, path: RemotePath) -> None:
        """Raise an error if `path` lies in the folder of a lock that is no longer ours."""
        if path.path.startswith(f"{self.lock.parent.path}/") and not self.is_ours():
            raise ApeError(
                "another process may have taken over here: this one could not renew its lease in time",
                got=str(self.lock.parent),
                allowed=f"{self.seconds} seconds without the object store",
                fix="see what the other one does; the same command goes on from what is stored",
            )

    def keep(self) -> None:
        """Renew it until it ends."""
        while not self.ended.wait(self.seconds / 4):
            with suppress(ApeError, OSError):  # the next attempt may get through
                self.renew()

    def release(self) -> None:
        """Remove the claim; what fails here, time brings."""
        with suppress(ApeError, OSError):
            self.claim.unlink(missing_ok=True)

    def _write(self) -> None:
        self.claim.write_bytes(json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())


@contextmanager
def held(lock: RemotePath, busy: ApeError, seconds: int = SECONDS) -> Iterator[Lease]:
    """Hold `lock`; `busy`, with its holder's name, is raised where another process holds it."""
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
    """Whether some process seems to hold `lock`, by this machine's clock."""
    return any(_expires(claim) > time.time_ns() for claim in _claims(lock))


def _claims(lock: RemotePath) -> list[RemotePath]:
    return list(lock.parent.glob(f"{lock.name}.*s.*"))


def _expires(claim: RemotePath) -> int:
    """Nanoseconds since 1970."""
    return claim.stat().st_mtime_ns + int(claim.name.split(".")[-2].removesuffix("s")) * 10**9


def _busy(busy: ApeError, claim: RemotePath, seconds: int) -> ApeError:
    try:
        about = json.loads(claim.read_bytes())
        holder = f", by process {about['process']} on {about['host']}"
    except (FileNotFoundError, KeyError, ValueError):  # gone meanwhile, or half written
        holder = ""
    fix = f"{busy.fix}; one that was killed is forgotten after {seconds} seconds"
    return type(busy)(busy.what, got=f"{busy.got}{holder}", allowed=busy.allowed, fix=fix)


def _clock() -> float:
    """Seconds, which pass while the machine sleeps too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
