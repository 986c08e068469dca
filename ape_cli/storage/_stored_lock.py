"""The stored form of a lock in an object store: who holds it, and until when. `leases.py` says how it is used."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_core import from_json

from ape_cli.core.errors import ApeError
from ape_cli.storage import _requests
from ape_cli.storage.object_store import RemotePath

SECONDS = 60  # duration of a lease; after it, the lock of a killed process is free
_LARGEST = 4096  # bytes of a lock


class StoredLock(NamedTuple):
    """A lock as it is stored."""

    version: Any
    expires: float  # the time from which it is free, by the store's clock, in seconds since 1970
    lease: str  # the ID of the lease that has written it; empty if the lock cannot be read
    holder: str  # in words; empty if the lock cannot be read


def find(lock: RemotePath) -> StoredLock | None:
    """Read a lock. Returns None if nobody has it. Raises `ApeError` if the object is too large for a lock."""
    try:
        content, about = _requests.read(lock.bucket, lock.key, _LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ApeError("this is no lock", got=lock, fix="remove it, if no other program needs it") from error
    seconds, lease, holder = _content(content)
    expires = about["last_modified"].timestamp() + seconds + 1  # stores drop fractions of a second
    return StoredLock(_requests.version_of(lock.bucket, about), expires, lease, holder)


def _content(content: bytes) -> tuple[float, str, str]:
    """Duration in seconds, ID and holder, from the content of a lock. One that is not ours expires like all others."""
    with suppress(ValueError, KeyError, TypeError):
        said = from_json(content, allow_inf_nan=False)
        if said["seconds"] >= 0:
            holder = f", by process {said['process']} on {said['host']}"
            return min(said["seconds"], SECONDS), str(said["lease"]), holder
    return SECONDS, "", ""
