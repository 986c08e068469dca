"""Requests to an object store: one function for each. All of them repeat what got no answer, and explain errors."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ape_cli.storage._bucket import Bucket
from ape_cli.storage._store_errors import again, explained, is_not_there, is_over, no_conditions

_IN_PARTS = 64 << 20  # bytes; larger objects are uploaded in parts, if no version has to be compared
_GENERATION = "x-goog-if-generation-match"
_SHORT = 64 << 10  # bytes; an upload of so few gets an answer as soon as any other request


class ConflictError(Exception):
    """The stored object is not the version that a conditional write expects."""


def head(bucket: Bucket, key: str) -> Any:
    """The metadata of an object, as obstore returns it: `path`, `size`, `last_modified`, `e_tag`, `version`.

    Raises `FileNotFoundError` if there is no such object.
    """
    import obstore

    with explained(bucket, key):
        return again(lambda: obstore.head(bucket.store, key))


def version(bucket: Bucket, key: str) -> Any:
    """The version of an object, or None if there is no such object."""
    try:
        return version_of(bucket, head(bucket, key))
    except FileNotFoundError:
        return None


def version_of(bucket: Bucket, about: Any) -> Any:
    """The version of an object, for a conditional write, from its metadata. Raises `PlaceError` if it has none."""
    found = {name: about[name] for name in ("e_tag", "version") if about[name] is not None}
    if not found:
        raise no_conditions(bucket)
    return found


def listing(bucket: Bucket, key: str) -> tuple[list[str], list[Any]]:
    """List a folder: the names of its folders, and the metadata of its objects.

    Other programs store an empty object `folder/` for a folder. It is left out.
    """
    import obstore

    with explained(bucket, key):
        found = again(lambda: obstore.list_with_delimiter(bucket.store, key))
    return list(found["common_prefixes"]), [about for about in found["objects"] if about["path"] != key]


def is_folder(bucket: Bucket, key: str) -> bool:
    """Whether the names of objects continue below `key`."""
    import obstore

    with explained(bucket, key):
        page = again(lambda: next(iter(obstore.list(bucket.store, key or None)), []))
    return any(about["path"] != key for about in page)


def read(bucket: Bucket, key: str, limit: int | None = None) -> tuple[bytes, Any]:
    """The content of an object, and the metadata of the version that was read.

    Raises `FileNotFoundError` if there is no such object, and `OSError` (EFBIG) if it has more than `limit` bytes.
    """
    import obstore

    def once() -> tuple[bytes, Any]:
        answer = obstore.get(bucket.store, key)
        if limit is not None and answer.meta["size"] > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", f"{bucket}/{key}")
        return bytes(answer.bytes()), answer.meta

    with explained(bucket, key):
        return again(once)


def download(bucket: Bucket, key: str, local: Path) -> None:
    """Download an object to a local file. Raises `FileNotFoundError` if there is no such object."""
    import obstore

    def once() -> None:
        with local.open("wb") as file:
            for chunk in obstore.get(bucket.store, key):
                file.write(chunk)

    with explained(bucket, key):
        again(once)


def upload(bucket: Bucket, key: str, content: BinaryIO) -> None:
    """Upload an open file as an object, whatever is stored there. The object appears when it is complete."""
    import obstore

    size = content.seek(0, io.SEEK_END)

    def once() -> None:
        content.seek(0)
        obstore.put(_for_upload(bucket, size), key, content, use_multipart=size > _IN_PARTS)

    with explained(bucket, key):
        again(once)


def replace(bucket: Bucket, key: str, content: bytes, expected: Any) -> Any:
    """Write an object if it has the version `expected`, or if it does not exist and `expected` is None.

    Returns the new version. If the answer to a request was lost, the stored content tells whether it was carried out.

    Raises `ConflictError` if the object has another version and another content.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    mode: Any = "create" if expected is None else expected
    with explained(bucket, key):
        try:
            store = _for_upload(bucket, len(content))
            return version_of(bucket, again(lambda: obstore.put(store, key, content, mode=mode, use_multipart=False)))
        except (AlreadyExistsError, PreconditionError) as error:
            conflict = ConflictError(str(error))
    try:
        found, about = read(bucket, key, len(content))
    except OSError:  # it was removed, or is larger
        raise conflict from None
    if found != content:
        raise conflict
    return version_of(bucket, about)


def _for_upload(bucket: Bucket, size: int) -> Any:
    """The store for an upload of `size` bytes."""
    return bucket.store if size <= _SHORT else bucket.uploads


def delete(bucket: Bucket, key: str, check: Callable[[], None] = lambda: None) -> None:
    """Remove an object, if it exists, whatever its version is. `check` is called before each attempt."""
    import obstore

    def once() -> None:
        check()
        obstore.delete(bucket.store, key)

    try:
        with explained(bucket, key):
            again(once)
    except FileNotFoundError:  # Google's store says so, and S3 does not
        pass


def remove(bucket: Bucket, key: str, expected: Any) -> bool:
    """Remove an object if it has the version `expected`, by one request that is not repeated.

    Returns whether the server has said that it is removed. If not, then the connection was closed or the server has
    failed, and nobody knows whether the object was removed. A server without conditional removals ignores `expected`.

    Raises `ConflictError` if the object has another version or does not exist, and `PlaceError` if the request was
    refused, or has timed out; in the last case it may be carried out later.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

    known = {"If-Match": expected["e_tag"]} if bucket.kind == "s3" else {_GENERATION: expected["version"]}
    with explained(bucket, key):
        for headers in (known, {}):
            try:
                obstore.delete(bucket.once(headers), key)
                return True
            except (PreconditionError, FileNotFoundError) as error:
                raise ConflictError(str(error)) from error
            except AlreadyExistsError:  # the status 409: another request for the object is being carried out
                return False
            except GenericError as error:
                if is_over(str(error)):
                    return False
                if not headers or not is_not_there(str(error)):
                    raise
    return False


class Reader(io.RawIOBase):
    """An object that is read by ranges of bytes. All of them are of the same version."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        """Ask for the size and the version of the object. Raises `FileNotFoundError` if it does not exist."""
        self._bucket, self._key, self._at = bucket, key, 0
        about = head(bucket, key)
        self._size, self._tag = about["size"], about["e_tag"]

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position of the next read, in bytes."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position of the next read, in bytes from the start, the current position or the end."""
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into `buffer`, and return their number: all that fit, or all that are left.

        Raises `PlaceError` if the request fails, or if the object was replaced since it was opened.
        """
        import obstore

        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        options: Any = {"range": (self._at, end), "if_match": self._tag}
        with explained(self._bucket, self._key):
            data = again(lambda: obstore.get(self._bucket.store, self._key, options=options).bytes())
        buffer[: len(data)] = memoryview(data)
        self._at += len(data)
        return len(data)
