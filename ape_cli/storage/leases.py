"""Locks in an object store: a lock is a lease, which its holder renews and which expires otherwise.

The lock is one object, which names its holder. It is valid for 60 seconds after its last write, by the store's clock.
Every write of it is conditional: the store carries it out only if the lock still has the version that the writer
expects (`If-None-Match` and `If-Match` on S3, generations on Google Cloud Storage). So of several processes that create
the lock, renew it, or take it over after it has expired, exactly one succeeds. A thread renews it after every quarter
of its duration.

Guarantees:

- Two processes never hold a lock at once, as long as it is renewed.
- A process that was disconnected or asleep for longer than its lease lasts gets an error before it writes or removes
  anything (`Lease.check`), and no longer renews the lock.
- An upload into the folder of the lock is conditional too (`RemotePath.upload`). If it arrives after another process
  has taken the lock and has written the same object, then the store rejects it. If the other process has not written
  that object yet, it replaces the late one.
- A store that ignores the conditions of writes is refused when the lock is taken.
- A removal of the lock is conditional too: it names the version that its holder has written just before. So it never
  removes the lock of another process, even if it is repeated because its answer was lost, or arrives late. This holds
  for stores with conditional removals: Amazon S3 (`If-Match`) and Google Cloud Storage (generations).
- On other stores, the removal is sent while the lock is ours, and it is sent again only after a conditional write has
  shown that the lock is still ours. After a request that timed out, it is not sent again.

Limits:

- On a store without conditional removals, a removal can remove the lock of a successor in two cases: it is carried out
  after the lease has expired; or its connection is closed, the next attempt succeeds, and then the first one is carried
  out all the same. The successor stops with an error when it renews the lock, after at most a quarter of the lease.
  Until then, a third process can hold the lock too.
- A lock that could not be removed is held until it expires. So is one whose first write arrives after its removal.
- An object that only the first process writes stays, if its upload arrives late.
- Other removals in the folder (`RemotePath.unlink`) are not conditional. If one arrives after the lease has expired,
  then it can remove what a successor has written: the state of a run, or a shard. The same command writes a missing
  shard again; a run has no state until its next checkpoint. The lease is checked before each attempt.
- Worker processes that generate shards write unconditionally. A wrong shard does not fit its digest in the manifest.
- `is_held` compares with the clock of this machine. Use it only for display.
"""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ape_cli.core.errors import ApeError
from ape_cli.storage import _requests
from ape_cli.storage._store_errors import no_conditions
from ape_cli.storage._stored_lock import SECONDS, find
from ape_cli.storage.object_store import RemotePath

_SAFE = 5 / 6  # fraction of the duration that the holder relies on, because stores round times to whole seconds
_TRIES = 5


class Lease:
    """The claim of this process on a lock, and the guard of the lock's folder. Make one with `held`.

    `lock` is the path of the lock, and `seconds` is the duration of the lease in seconds.
    """

    def __init__(self, lock: RemotePath, seconds: int) -> None:
        """Prepare a claim; nothing is written yet."""
        self.lock, self.seconds = lock, seconds
        self.id = uuid.uuid4().hex
        self.asked = False  # whether a write of the lock was requested
        self.version: Any = None  # of the lock, as this process has written it last
        self.until = 0.0  # end of the time in which the lock is ours, by `_clock`
        self.versions: dict[str, Any] = {}
        self.ended = threading.Event()
        self._writing = threading.Lock()

    def acquire(self) -> str | None:
        """Try to take the lock. Returns None on success, else its holder in words, which may be empty.

        Raises `PlaceError` if the store cannot have locks.
        """
        holder = ""
        for _ in range(_TRIES):
            found = find(self.lock)
            if found is not None and found.expires > self._store_time():
                return found.holder
            with suppress(_requests.ConflictError):  # another process was faster
                self._write(found.version if found else None)
                self._check_conditions()
                return None
            holder = found.holder if found else ""
        return holder

    def _check_conditions(self) -> None:
        """Write the lock again. Raises `PlaceError` if the store carries out a write whose condition is not met."""
        outdated = self.version
        self._write(outdated)
        for expected in (None, outdated):
            with suppress(_requests.ConflictError):
                self._write(expected)
                raise no_conditions(self.lock.bucket)

    def renew(self) -> None:
        """Write the lock again, if it is still ours; otherwise give it up.

        Raises `PlaceError` if the store does not answer.
        """
        with self._writing:
            if self.is_ours() and not self._write_again():
                self.until = 0.0

    def _write_again(self) -> bool:
        """Write the lock again, if it is stored and this lease has written it. Returns whether that was so."""
        for _ in range(_TRIES):
            with suppress(_requests.ConflictError):
                if self.version is not None:
                    self._write(self.version)
                    return True
            found = find(self.lock)
            if found is None or found.lease != self.id:
                break
            self.version = found.version  # our last write was carried out, and its answer was lost
        return False

    def is_ours(self) -> bool:
        """Whether this process may rely on holding the lock now."""
        return _clock() < self.until

    def covers(self, path: str) -> bool:
        """Whether the object `path` lies in the folder of the lock."""
        return path.startswith(f"{self.lock.parent.path}/")

    def check(self) -> None:
        """Raise `ApeError` if the lock is no longer ours."""
        if not self.is_ours():
            raise ApeError(
                "this process could not renew its lock in time, so another process may have taken over",
                got=str(self.lock.parent),
                allowed=f"{self.seconds} seconds without the object store",
                fix="look for another process; then run the same command again to continue",
            )

    def keep(self) -> None:
        """Renew the lock regularly until `ended` is set. This runs in a thread."""
        while not self.ended.wait(self.seconds / 4):
            with suppress(ApeError, OSError):  # the next attempt may get through
                self.renew()

    def release(self) -> None:
        """Remove the lock, if this lease has written it. Errors are ignored, because it expires anyway.

        Each attempt begins with a conditional write. It shows that an earlier attempt has not removed the lock, and it
        gives the removal a whole duration of the lease to arrive.
        """
        with suppress(ApeError, OSError, _requests.ConflictError):
            for attempt in range(_TRIES if self.asked else 0):
                if not self._write_again() or not self.is_ours():
                    break
                if _requests.remove(self.lock.bucket, self.lock.key, self.version):
                    break
                time.sleep(0.1 * 2**attempt)
        self.until = 0.0

    def _write(self, expected: Any) -> None:
        """Write the lock if it has the version `expected`. Raises `ConflictError` if it has another one."""
        start, self.asked = _clock(), True
        about = {
            "lease": self.id,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "seconds": self.seconds,
            "write": uuid.uuid4().hex,  # so that each write makes a new version
        }
        self.version = _requests.replace(self.lock.bucket, self.lock.key, json.dumps(about).encode(), expected)
        self.until = start + _SAFE * self.seconds

    def _store_time(self) -> float:
        """The time by the store's clock, in seconds since 1970: that of an object that is written now.

        All processes write the same object, so that a killed one leaves nothing that the next one does not remove.
        """
        now = self.lock.with_name(f"{self.lock.name}.now")
        for _ in range(_TRIES):
            _requests.upload(now.bucket, now.key, io.BytesIO())
            with suppress(FileNotFoundError):  # another process has removed it in between
                written = now.stat().st_mtime_ns / 1e9
                _requests.delete(now.bucket, now.key)
                return written
        return float("-inf")  # many processes are looking at this lock, so let one of the others have it


@contextmanager
def held(lock: RemotePath, busy: ApeError, seconds: int = SECONDS) -> Iterator[Lease]:
    """Hold `lock` during the block, and yield the lease.

    `seconds` is the duration of the lease. During the block, the lease guards all uploads into the lock's folder.

    Raises `busy`, extended by the holder's name, if another process holds the lock, and `ApeError` if it cannot be had.
    """
    lease = Lease(lock, seconds)
    with ExitStack() as stack:
        stack.callback(lease.release)  # first, because the lock may be stored although `acquire` raises an error
        holder = lease.acquire()
        if holder is not None:
            fix = f"{busy.fix}; one that was killed is forgotten after {seconds} seconds"
            raise type(busy)(busy.what, got=f"{busy.got}{holder}", allowed=busy.allowed, fix=fix)
        stack.enter_context(_kept(lease))
        lock.bucket.guards.append(lease)
        stack.callback(lock.bucket.guards.remove, lease)
        yield lease


@contextmanager
def _kept(lease: Lease) -> Iterator[None]:
    """Renew the lease in a thread during the block. Raises `ApeError` if the system allows no more threads."""
    try:
        keeper = threading.Thread(target=lease.keep, daemon=True)
        keeper.start()
    except RuntimeError as error:
        raise ApeError(
            "cannot start a thread that renews the lock", got=error, fix="end other processes, or raise `ulimit -u`"
        ) from error
    try:
        yield
    finally:
        lease.ended.set()
        keeper.join()


def is_held(lock: RemotePath) -> bool:
    """Whether some process seems to hold `lock`, by the clock of this machine."""
    found = find(lock)
    return found is not None and found.expires > time.time()


def _clock() -> float:
    """A clock in seconds that also advances while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
